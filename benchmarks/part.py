"""A measurement of one row a model: each in a process of its own, stored as it comes, resumed."""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from benchmarks import machine, one_process

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.plot import Plot


class Row(Protocol):
    """What a part has of each model; ``error`` says why there is nothing."""

    @property
    def model(self) -> str:
        """Its name in the zoo."""
        ...

    @property
    def error(self) -> str:
        """Empty where it was measured."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for ``json.dumps``."""
        ...


R = TypeVar("R", bound=Row)


@dataclass(frozen=True)
class Part(Generic[R]):
    """One measurement.

    Parameters
    ----------
    name
        Of its module; ``<name>_run`` measures one model and prints its row.
    about
        One line for the command line's help.
    models
        Of the zoo, in the page's order.
    read
        Makes a row of what ``to_dict`` gave.
    failed
        Makes the row of a model, by name, that could not be measured, and why.
    page
        The document of all rows and of the machine's description.
    said
        A row in a few words, for the terminal.
    budget, timeout
        Seconds to time a model for, and for all of it, unless the command line says else.
    plot
        What the page shows in ``images`` beside it, under the name of the stored rows.
    """

    name: str
    about: str
    models: Sequence[str]
    read: Callable[[dict[str, Any]], R]
    failed: Callable[[str, str], R]
    page: Callable[[Sequence[R], str], str]
    said: Callable[[R], str]
    budget: float
    timeout: float
    plot: Callable[[Sequence[R]], Plot] | None = None

    @property
    def results(self) -> Path:
        """Where its rows are stored."""
        return Path(__file__).parent / "results" / f"{self.name.replace('_', '-')}.json"

    def parser(self) -> argparse.ArgumentParser:
        """The arguments that every part has."""
        parser = argparse.ArgumentParser(
            prog=f"python -m benchmarks.{self.name}", description=self.about
        )
        listed = list(self.models)
        parser.add_argument("--models", nargs="+", choices=listed, default=listed, metavar="NAME")
        parser.add_argument("--quick", action="store_true", help="tiny forms")
        parser.add_argument("--budget", type=float, default=self.budget, help="seconds to time for")
        parser.add_argument("--timeout", type=float, default=self.timeout, help="seconds a model")
        parser.add_argument("--again", action="store_true", help="measure anew what is stored")
        parser.add_argument("--json", type=Path, default=self.results, help="where rows are stored")
        parser.add_argument("--write", type=Path, help="the page to write")
        return parser

    def measure(self, given: argparse.Namespace, more: Sequence[str] = ()) -> int:
        """Measure what is not there yet, store, write; 1 where a model has no row.

        Parameters
        ----------
        given
            The arguments of ``parser``.
        more
            Further words for the process that measures a model.
        """
        rows: dict[str, R] = {}
        if given.json.exists():
            stored = json.loads(given.json.read_text(encoding="utf-8"))
            rows = {row.model: row for row in map(self.read, stored)}
        passed = [f"--budget={given.budget}", *(["--quick"] if given.quick else []), *more]
        for model in given.models:
            if model in rows and not given.again:
                continue
            words = ["--model", model, *passed]
            found = one_process.answer(f"{self.name}_run", words, given.timeout)
            row = self.failed(model, found) if isinstance(found, str) else self.read(found)
            rows[model] = row
            print(f"{model}: {self.said(row)} {row.error}".rstrip(), flush=True)
            given.json.parent.mkdir(parents=True, exist_ok=True)
            records = [each.to_dict() for each in rows.values()]
            given.json.write_text(json.dumps(records, indent=1) + "\n", encoding="utf-8")
        ordered = [rows[model] for model in self.models if model in rows]
        if given.write:
            given.write.write_text(self.page(ordered, machine.sentence()), encoding="utf-8")
            good = [row for row in ordered if not row.error]
            if self.plot is not None and good:
                self.plot(good).save(given.write.parent / "images" / f"{self.results.stem}.svg")
        return int(any(row.error for row in ordered))
