"""Rows of a study in one compressed file for each machine: JSON lines, written after each row."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from benchmarks import machine
from benchmarks.zoo.form import USUAL, Form

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

FOLDER = Path(__file__).parent / "results"


def own(study: str, form: Form = USUAL) -> Path:
    """The file of a study's rows on this machine, as ``results/amd-epyc-2-cores/auto.jsonl.gz``.

    Parameters
    ----------
    study
        A module of this package.
    form
        Rows of another form lie in a file of their own: ``auto-cuda-full.jsonl.gz``.
    """
    return FOLDER / machine.name() / f"{study.replace('_', '-')}{form.suffix}.jsonl.gz"


def of_any_machine(study: str) -> Path:
    """The file of a study that measures no time: machines add rows to one another's."""
    return FOLDER / "any-machine" / f"{study}.jsonl.gz"


def others(study: str, form: Form = USUAL) -> list[Path]:
    """The same study's and form's files of other machines."""
    mine = own(study, form)
    return sorted(set(FOLDER.glob(f"*/{mine.name}")) - {mine})


class PackedRows:
    """Plain dictionaries by key, kept in a file.

    Parameters
    ----------
    path
        Of the file; it need not be there yet.
    keys
        The fields that tell one row from another.

    Attributes
    ----------
    head
        What holds for the rows as a whole: the first line of the file.
    """

    def __init__(self, path: Path, keys: tuple[str, ...]) -> None:
        self._path = path
        self._keys = keys
        self.head: dict[str, Any] = {}
        self._rows: dict[tuple[Any, ...], dict[str, Any]] = {}
        if path.exists():
            self.head, *rows = map(json.loads, gzip.decompress(path.read_bytes()).splitlines())
            self._rows = {self.key(row): row for row in rows}

    def note_machine(self, sentence: str) -> None:
        """Add ``machine.sentence()`` to the ones in the head, once."""
        known = self.head.get("machine", "").split("\n")
        self.head["machine"] = "\n".join(filter(None, dict.fromkeys([*known, sentence])))

    def key(self, row: dict[str, Any]) -> tuple[Any, ...]:
        """What tells a row from the others."""
        return tuple(row[name] for name in self._keys)

    def __contains__(self, key: tuple[Any, ...]) -> bool:
        return key in self._rows

    def all(self) -> list[dict[str, Any]]:
        """Every row, ordered by key."""
        return [self._rows[key] for key in sorted(self._rows)]

    def add(self, row: dict[str, Any]) -> None:
        """Keep a row in place of an older one with its key; ``save`` writes it."""
        self._rows[self.key(row)] = row

    def keep(self, row: dict[str, Any]) -> None:
        """Add a row, and write the file."""
        self.add(row)
        self.save()

    def missing(self, keys: Iterable[tuple[Any, ...]], given: argparse.Namespace) -> Any:
        """Those of the keys to measure, as a command line of ``add_storing`` says, as they pass."""
        wanted = [key for key in keys if given.again or key not in self]
        return tqdm([] if given.only_write else wanted, disable=None)

    def save(self) -> None:
        """Write the file at once as a whole; the same rows give the same bytes."""
        lines = [self.head, *self.all()]
        text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        draft = self._path.with_suffix(".part")
        draft.write_bytes(gzip.compress(text.encode(), mtime=0))
        draft.replace(self._path)
