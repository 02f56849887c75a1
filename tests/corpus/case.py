"""What a case of the corpus is: cells that run in order in one notebook.

A cell runs plainly in one session and under ``%%dynamo -b eager`` in the other. Three markers
make the exceptions readable where they are:

- a cell whose first line is ``# plain`` runs without the magic in both sessions;
- a line ``%%dynamo`` says where the magic line goes when something stands above it
  (``%%capture out``, blank lines); the plain session leaves that line out;
- everywhere else the magic line goes first.
"""

from __future__ import annotations

import importlib.metadata
import textwrap
from dataclasses import dataclass

MAGIC_LINE = "%%dynamo -b eager --quiet"
MARKER = "%%dynamo"
PLAIN = "# plain"


@dataclass(frozen=True)
class Case:
    """Cells, and what is known of them beforehand.

    Parameters
    ----------
    name
        Unique in the corpus, part of the test's id.
    cells
        The cells' texts.
    raises
        The names of the exceptions that the plain session shows, in order, with blanks between.
    graphs, operations
        What the reports of the cells under the magic say together; ``None`` where not stated.
        A case that states graphs is a tensor case: frames of libraries in tracebacks may differ,
        the user's may not.
    clock
        The output holds timings: numbers in it are not compared.
    offset
        How many lines further down the cell's code stands for the magic line.
    python
        The first Python that can run it.
    refused
        A regular expression for the one sentence with which the magic refuses the last cell.
    inductor
        Whether a lesson runs on Inductor as well, whose C++ compiler takes its time.
    differs
        Why torch itself makes this case differ under the magic. Such a case must differ: once it
        does not, its reason is out of date.
    differs_on
        The minor versions of torch on which it differs; all of them where empty.
    """

    name: str
    cells: tuple[str, ...]
    raises: str = ""
    graphs: int | None = None
    operations: int | None = None
    clock: bool = False
    offset: int = 1
    python: tuple[int, int] = (3, 11)
    refused: str = ""
    differs: str = ""
    inductor: bool = False
    differs_on: tuple[str, ...] = ()

    @property
    def known_difference(self) -> str:
        """``differs`` where that is so on the torch that is installed; empty else."""
        minor = importlib.metadata.version("torch").rpartition(".")[0]
        return self.differs if not self.differs_on or minor in self.differs_on else ""

    @property
    def magic_cells(self) -> frozenset[int]:
        """The numbers (``In[n]``) of the cells that run under the magic."""
        return frozenset(
            number for number, cell in enumerate(self.cells, 1) if not cell.startswith(PLAIN)
        )

    def text(self, number: int, magic: str | None) -> str:
        """The text of cell ``number``, under the magic line ``magic`` or plain (``None``)."""
        cell = self.cells[number - 1]
        if number not in self.magic_cells:
            return cell
        lines = cell.split("\n")
        if MARKER in lines:
            at = lines.index(MARKER)
            lines[at : at + 1] = [] if magic is None else [magic]
        elif magic is not None:
            lines.insert(0, magic)
        return "\n".join(lines)


def case(
    name: str,
    *cells: str,
    raises: str = "",
    graphs: int | None = None,
    operations: int | None = None,
    clock: bool = False,
    offset: int = 1,
    python: tuple[int, int] = (3, 11),
    refused: str = "",
    differs: str = "",
    inductor: bool = False,
    differs_on: tuple[str, ...] = (),
    verbatim: bool = False,
) -> Case:
    """Make a ``Case`` of triple-quoted cells (``verbatim`` keeps indents and blank ends)."""
    texts = cells if verbatim else tuple(textwrap.dedent(c).strip("\n") for c in cells)
    return Case(
        name, texts, raises, graphs, operations, clock, offset, python, refused, differs, inductor,
        differs_on,
    )  # fmt: skip


def cases(head: str, text: str) -> list[Case]:
    """Make cases that begin with one cell, ``head``, and are written below each other.

    ``## name`` begins a case and ``# %%`` its next cell. ``[inductor]`` may follow the name, and
    what the cells raise: ``## name -> ValueError``.
    """
    made = []
    for part in text.split("\n## ")[1:]:
        title, _, cells = part.partition("\n")
        label, _, raises = title.partition(" -> ")
        name = label.removesuffix(" [inductor]")
        parts = cells.split("\n# %%\n")
        made.append(case(name, head, *parts, raises=raises, inductor=name != label))
    return made
