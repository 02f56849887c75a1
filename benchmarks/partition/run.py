"""What engines take of one model, in this process; prints a JSON line.

``benchmarks.partition`` starts it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

import dynamo_ext
from benchmarks import workers
from benchmarks.cuts import Cuts
from benchmarks.part import model_parser
from benchmarks.stored_row import ModelRow
from benchmarks.zoo import MODELS
from benchmarks.zoo.form import Form
from dynamo_ext.analysis.placement import EAGER, coverage, operator_times

if TYPE_CHECKING:
    from collections.abc import Sequence

    from dynamo_ext.records.report import Report


@dataclass(frozen=True)
class Left:
    """An operator that eager runs, and its share of all operations' time in eager."""

    operator: str
    share: float


@dataclass(frozen=True)
class Taken:
    """What one engine took of a model.

    ``operations`` are those of the normalised graphs, ``in_engine`` those it ran, in ``parts``
    parts, with ``switches`` changes between them and eager in one call. ``left`` is the share of
    the time of all captured operations, as they take it in eager one by one, of those that eager
    runs, ``shared`` that of those which became several and ran in both. ``operators`` are those
    of ``left``, the costliest first.
    """

    engine: str
    operations: int
    in_engine: int
    parts: int
    switches: int
    left: float
    shared: float
    operators: tuple[Left, ...]


@dataclass(frozen=True)
class Row(ModelRow):
    """One model under each engine.

    One of which Dynamo captures no graph has nothing ``taken``, one that could not be measured
    an ``error``.
    """

    model: str
    taken: tuple[Taken, ...] = ()
    error: str = ""


def measure(name: str, engines: Sequence[str], *, form: Form) -> Row:
    """Call a model once under each engine, and time its operations in eager.

    Parameters
    ----------
    name
        Of a model of the zoo.
    engines
        Backends that divide a graph.
    form
        At which size, and where.
    """
    built = MODELS[name].build(form)
    taken = []
    with torch.no_grad():
        for engine in engines:
            torch.compiler.reset()
            cuts = Cuts()
            with cuts.watched():
                report = dynamo_ext.explain(built.module, built.args, built.kwargs, backend=engine)
            if not report.graphs:
                return Row(name)
            taken.append(_taken(engine, report, cuts.switches()))
    return Row(name, tuple(taken))


def _taken(engine: str, report: Report, switches: int) -> Taken:
    covered = coverage(report)
    parts = [p for graph in report.graphs for p in graph.partitions if p.engine != EAGER]
    times = operator_times(report)
    left = [each for each in times if each.engines == (EAGER,)]
    within = {engine}
    shared = [each for each in times if each not in left and not within.issuperset(each.engines)]
    return Taken(
        engine,
        covered.total,
        covered.in_engine,
        len(parts),
        switches,
        sum(each.share for each in left),
        sum(each.share for each in shared),
        tuple(Left(each.name, each.share) for each in left),
    )


def main() -> None:
    """Print the row of one model."""
    parser = model_parser("What engines take of one model.", None)
    parser.add_argument("--backends", nargs="+", required=True)
    given = parser.parse_args()
    workers.go_through(
        [given.model], lambda name: [measure(name, given.backends, form=Form.of(given))]
    )


if __name__ == "__main__":
    main()
