"""A cell's text as the shell would compile it, with the editor's line numbers."""

import contextlib
import tokenize
import weakref
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

from IPython.core.interactiveshell import InteractiveShell


@dataclass(frozen=True)
class CellText:
    """A translated cell.

    ``source`` begins with a comment line for each line above the body, so that its line numbers are
    the editor's. ``cell_id`` is the front end's, where it gives one.
    """

    shell: InteractiveShell
    source: str
    raw: str
    number: int
    cell_id: str | None
    interactivity: str
    key: Hashable

    def register(self) -> str:
        """Give the source a file name that tracebacks and ``inspect`` can look up."""
        name: str = self.shell.compile.cache(self.source, self.number, raw_code=self.raw)
        return name

    def name_for_tracebacks(self, filename: str) -> None:
        """Have a reused program's tracebacks say the number the cell has now."""
        names: Any = getattr(self.shell.compile, "_filename_map", None)
        if isinstance(names, dict):
            names[filename] = self.number


def cell_names(shell: InteractiveShell) -> Callable[[str], str]:
    """What tells the cell of a code object's file as tracebacks do (``In[5]``)."""
    # Lines outlive a shell that was thrown away.
    compiler = weakref.ref(shell.compile)

    def cell_of(file: str) -> str:
        alive = compiler()
        named = alive.format_code_name(file) if alive is not None else None
        return named[1] if named is not None else ""

    return cell_of


def read_cell(shell: InteractiveShell, line: str, body: str, *, silent: bool = False) -> CellText:
    """Translate a cell's body (``!cmd``, ``%magic``, ``;``) to Python.

    ``silent`` keeps its last value from being shown. Raises ``SyntaxError`` as for a plain cell.
    """
    above = _lines_above(shell, body)
    # IPython takes the first line's indentation off every line.
    code = body.lstrip("\n")
    indent = code[: len(code) - len(code.lstrip(" \t"))]
    said = (*above[:-1], f"%%dynamo {line}".rstrip())
    header = "".join(f"{indent}# {text}\n" for text in said)
    if body.lstrip().startswith("%%"):
        # Another cell magic is recognised only at the very beginning.
        source = header + shell.transform_cell(body)
    else:
        source = shell.transform_cell(header + body)
    # The display hook looks for a closing `;` in the history, where this cell is one magic call.
    with contextlib.suppress(tokenize.TokenError):
        silent = silent or shell.displayhook.semicolon_at_end_of_expression(source)
    outcome = shell.displayhook.exec_result
    silent = silent or runs_silently(shell)
    interactivity = "none" if silent else shell.ast_node_interactivity
    flags = getattr(shell.compile, "flags", 0)
    key = (body, len(above), flags, interactivity)
    # Cells run with store_history=False have no number of their own.
    count = getattr(outcome, "execution_count", None)
    number = int(count if count is not None else shell.execution_count)
    cell_id = getattr(getattr(outcome, "info", None), "cell_id", None) or None
    return CellText(shell, source, header + body, number, cell_id, interactivity, key)


def runs_silently(shell: InteractiveShell) -> bool:
    """Whether a front end asked for the cell with ``silent``: what it only ends in is not shown."""
    outcome = shell.displayhook.exec_result
    return bool(getattr(getattr(outcome, "info", None), "silent", False))


def _lines_above(shell: InteractiveShell, body: str) -> list[str]:
    history = getattr(shell.history_manager, "input_hist_raw", None)
    raw = history[-1] if history else ""
    if raw.rstrip("\n").endswith(body.rstrip("\n")):
        above = raw.rstrip("\n")[: -len(body.rstrip("\n"))]
        if "%%dynamo" in above:
            return above.rstrip("\n").split("\n")
    return [""]
