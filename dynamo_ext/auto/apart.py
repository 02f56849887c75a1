"""A graph's race in processes of their own, here or wherever an executor takes it.

A candidate that ends its process has lost, and nothing else is. Each candidate is timed beside
eager in its own process, so that a speedup compares two timings of one process on one machine;
candidates are then compared by their speedups.
"""

from __future__ import annotations

import contextlib
import datetime as dt
from typing import TYPE_CHECKING, Any

import torch

from dynamo_ext.auto.placing import place, winner_of
from dynamo_ext.measure.candidates import candidates_of
from dynamo_ext.measure.compare import Settings
from dynamo_ext.measure.isolation import FunctionTask, compare_apart
from dynamo_ext.measure.switchboard import EAGER, own_copy
from dynamo_ext.records import Contest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from concurrent.futures import Executor

    from torch.fx import GraphModule

    from dynamo_ext.comparison import CandidateResult
    from dynamo_ext.records import Contestant

_executor: Executor | None = None


@contextlib.contextmanager
def race_on(executor: Executor) -> Iterator[None]:
    """Have ``auto``'s races carried by an executor while the block runs.

    Parameters
    ----------
    executor
        Any ``concurrent.futures.Executor``: ``client.get_executor()`` of a Dask client,
        ipyparallel's, the standard library's. Its workers need the same versions of Python, torch
        and ``dynamo_ext``, and hardware of the same kind as this machine's: the winner runs here.

    Examples
    --------
    >>> with dynamo_ext.race_on(client.get_executor()):
    ...     fast = torch.compile(model, backend="dx_auto")
    ...     fast(x)
    """
    global _executor  # noqa: PLW0603 - a setting of the process, as torch's thread count is
    before, _executor = _executor, executor
    try:
        yield
    finally:
        _executor = before


def executor() -> Executor | None:
    """Who carries races now, if anybody."""
    return _executor


def can_be_sent(inputs: Sequence[Any]) -> bool:
    """Whether inputs are values: a graph for sizes that change has names for them instead."""
    return all(isinstance(value, (torch.Tensor, int, float, bool)) for value in inputs)


class Held(torch.nn.Module):
    """A captured graph that holds its weights, as the module did that it was captured from.

    Dynamo lifts weights to inputs. Backends freeze weights and not inputs, so a process that
    captures the graph anew must see which are which.

    Parameters
    ----------
    graph
        As Dynamo hands it over.
    inputs
        One value for each placeholder.
    """

    def __init__(self, graph: GraphModule, inputs: Sequence[Any]) -> None:
        super().__init__()
        self.graph = graph
        self.order: list[int | None] = []
        self.weights = torch.nn.ParameterList()
        for value in inputs:
            held = isinstance(value, torch.nn.Parameter)
            self.order.append(len(self.weights) if held else None)
            if held:
                self.weights.append(value)

    def forward(self, *rest: Any) -> Any:
        """Call the graph on the weights and on what is no weight, in their places."""
        given = iter(rest)
        return self.graph(
            *[next(given) if place is None else self.weights[place] for place in self.order]
        )


def hold(  # noqa: PLR0913 - a race's settings, by keyword
    graph: GraphModule,
    inputs: Sequence[Any],
    names: Sequence[str],
    *,
    budget: float,
    compile_budget: float,
    training: bool,
    carrier: Executor | None,
) -> Contest:
    """Race backends on a graph, each in another process.

    Parameters
    ----------
    graph
        As Dynamo hands it over; it is copied.
    inputs
        Real values, one for each placeholder (``can_be_sent``).
    names
        Who races against eager.
    budget
        Seconds to time each for.
    compile_budget
        Seconds that each may take to compile the graph.
    training
        Whether a backward pass follows.
    carrier
        An executor; ``None`` for processes of our own, one after another.

    Raises
    ------
    OptionError
        Where the graph or an input cannot be sent.
    """
    module = Held(own_copy(graph), inputs)
    rest = tuple(v for v in inputs if not isinstance(v, torch.nn.Parameter))
    settings = Settings(budget=budget, compile_budget=compile_budget, train=training)
    record = compare_apart(
        FunctionTask(module, rest), candidates_of(list(names)), settings, carrier
    )
    speedups = {
        row.name: row.speedup
        for row in record.candidates
        if row.outcome == "measured" and row.speedup is not None and row.name != EAGER
    }
    winner = winner_of(speedups)
    return Contest(
        winner,
        tuple(_row(row, winner) for row in record.candidates),
        raced_on=dt.datetime.now(tz=dt.UTC).date().isoformat(),
        rounds=record.rounds,
        seconds=record.seconds,
        note="The race was interrupted; it is not remembered." if record.interrupted else "",
    )


def _row(row: CandidateResult, winner: str) -> Contestant:
    outcome = ""
    if row.ended:
        outcome = "crashed"
    elif row.outcome in {"eager", "wrong"}:
        outcome = str(row.outcome)
    elif row.outcome != "measured":
        outcome = "failed"
    return place(
        row.name,
        winner,
        outcome=outcome,
        reason=row.reason,
        seconds=row.timing.median if row.timing else 0.0,
        speedup=None if row.name == EAGER else row.speedup,
        error=row.accuracy[0].max_rel if row.accuracy else 0.0,
    )
