"""A measurement of one row a model: each in a process of its own, stored as it comes, resumed."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from tqdm import tqdm

from benchmarks import machine, workers
from benchmarks.packed_rows import PackedRows, own
from benchmarks.stored_row import ModelRow
from benchmarks.workers import Bounds
from benchmarks.zoo.form import Form, add_arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from benchmarks.plot import Plot


R = TypeVar("R", bound=ModelRow)


@dataclass(frozen=True)
class Part(Generic[R]):
    """One measurement.

    Parameters
    ----------
    name
        Of its folder, which is a command.
    about
        One line for the command line's help.
    models
        Of the zoo, in the page's order.
    row
        The class of its rows.
    page
        The document of all rows and of the machine's description.
    said
        A row in a few words, for the terminal.
    measure
        Makes the row of a model, in a process of its own, as the command line says.
    budget, timeout
        Seconds to time a model for (None where nothing is timed so), and for all of it, unless
        the command line says else.
    plot
        What the page shows in ``images`` beside it, under the name of the stored rows.
    needs
        A file without which nothing is measured, and what is said where it is not there.
    """

    name: str
    about: str
    models: Sequence[str]
    row: type[R]
    page: Callable[[Sequence[R], str], str]
    said: Callable[[R], str]
    measure: Callable[[str, argparse.Namespace], R]
    budget: float | None
    timeout: float
    plot: Callable[[Sequence[R]], Plot] | None = None
    needs: tuple[Path, str] | None = None

    def parser(self) -> argparse.ArgumentParser:
        """The arguments that every part has."""
        parser = argparse.ArgumentParser(
            prog=f"python -m benchmarks.{self.name}", description=self.about
        )
        listed = list(self.models)
        parser.add_argument("--models", nargs="+", choices=listed, default=listed, metavar="NAME")
        add_arguments(parser)
        if self.budget is not None:
            parser.add_argument("--budget", type=float, default=self.budget, help="seconds to time")
        add_storing(parser, self.timeout)
        parser.add_argument("--here", choices=listed, help=argparse.SUPPRESS)
        return parser

    def run(
        self, parser: argparse.ArgumentParser | None = None, arguments: Sequence[str] | None = None
    ) -> int:
        """Measure what is not there yet, store, write; 1 where a model has no row, 2 for nothing.

        A row of another processor, device or size counts as not there: a table whose rows are of
        several would compare what cannot be compared.

        Parameters
        ----------
        parser
            That of ``parser``, with what else the command line has.
        arguments
            The command line; that of a model's process has ``--here`` besides.
        """
        arguments = sys.argv[1:] if arguments is None else arguments
        given = (parser or self.parser()).parse_args(arguments)
        if given.here:
            return workers.go_through([given.here], lambda model: [self.measure(model, given)])
        if self.needs and not given.only_write and not self.needs[0].exists():
            print(self.needs[1])
            return 2
        form, bounds = Form.of(given), Bounds(given.timeout, given.memory)
        file = given.rows or own(self.name, form)
        packed = PackedRows(file, ("model",))
        rows = self._stored(packed)
        if given.only_write and not rows:
            print(f"There are no rows in {file}. Measure some, or name another file with --rows.")
            return 1
        for model in tqdm([] if given.only_write else given.models, unit="model", disable=None):
            here = model in rows and machine.is_here(rows[model].machine, form)
            if here and not given.again:
                continue
            found = workers.answer(self.name, [*arguments, "--here", model], bounds)
            if isinstance(found, str):
                row = self.row(model, error=found)
            else:
                row = self.row.from_dict(found)
            rows[model] = Stored(row, machine.sentence(form))
            tqdm.write(f"{model}: {self.said(row)} {row.error}".rstrip())
            packed.keep({**row.to_dict(), "machine": rows[model].machine})
        ordered = [rows[model] for model in self.models if model in rows]
        if given.write:
            page = self.page([each.row for each in ordered], described(ordered))
            # A page beside the usual one, as of another machine, has a plot of its own.
            stem = given.write.stem
            usual = self.name.replace("_", "-")
            page = page.replace(f"images/{usual}.svg", f"images/{stem}.svg")
            given.write.write_text(page, encoding="utf-8")
            good = [each.row for each in ordered if not each.row.error]
            if self.plot is not None and good:
                self.plot(good).save(given.write.parent / "images" / f"{stem}.svg")
        return int(any(each.row.error for each in ordered))

    def _stored(self, packed: PackedRows) -> dict[str, Stored[R]]:
        found = {}
        for record in packed.all():
            facts = {name: value for name, value in record.items() if name != "machine"}
            row = self.row.from_dict(facts)
            found[row.model] = Stored(row, record.get("machine", ""))
        return found


def add_storing(parser: argparse.ArgumentParser, seconds: float) -> None:
    """The arguments of every study that keeps rows: bounds of a process, its file, its page."""
    parser.add_argument("--timeout", type=float, default=seconds, help="seconds for one row")
    parser.add_argument("--memory", type=float, default=Bounds.memory, help="GiB of a process")
    parser.add_argument("--again", action="store_true", help="measure again what is stored")
    parser.add_argument("--rows", type=Path, help="the file of the rows")
    parser.add_argument("--write", type=Path, help="the page to write")
    parser.add_argument("--only-write", action="store_true", help="from what is stored")


@dataclass(frozen=True)
class Stored(Generic[R]):
    """A row, and in one sentence the machine and the versions that it was measured with."""

    row: R
    machine: str


def described(rows: Sequence[Stored[Any]]) -> str:
    """With what the rows were measured: one sentence, or one for each machine and its models."""
    models: dict[str, list[str]] = {}
    for each in rows:
        models.setdefault(each.machine or "Measured with: not known.", []).append(each.row.model)
    if len(models) == 1:
        return next(iter(models))
    return "\n\n".join(f"{', '.join(names)}: {said}" for said, names in models.items())
