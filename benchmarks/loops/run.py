"""One cell with a loop, plain and under ``%%dynamo``; prints a JSON line.

``benchmarks.loops`` starts it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from IPython.core.interactiveshell import InteractiveShell

from benchmarks import workers
from benchmarks.loops.cells import CELLS
from benchmarks.part import model_parser
from benchmarks.stored_row import ModelRow
from benchmarks.zoo.form import Form

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH, QUICK_WIDTH = 256, 16


@dataclass(frozen=True)
class Gain:
    """What a backend made of a cell: a speedup over the plain cell with its 95 % interval.

    ``graphs`` were captured and called ``calls`` times in a run of the cell, once warm, with
    ``operations`` in the engine in all. Zeros and a reason where it was not measured.
    """

    name: str
    outcome: str
    ratio: float = 0.0
    low: float = 0.0
    high: float = 0.0
    reason: str = ""
    graphs: int = 0
    calls: int = 0
    operations: int = 0


@dataclass(frozen=True)
class Row(ModelRow):
    """One cell. ``plain_seconds`` is its median without Dynamo."""

    model: str
    plain_seconds: float = 0.0
    gains: tuple[Gain, ...] = ()
    error: str = ""


def measure(name: str, backends: Sequence[str], *, form: Form, budget: float) -> Row:
    """Run a cell under each backend, and compare them on it.

    Parameters
    ----------
    name
        Of a cell in ``loop_cells``.
    backends
        By name.
    form
        The tiny one has narrow layers; cells have no other size, and run on the CPU.
    budget
        Seconds for the comparison.
    """
    cell = CELLS[name]
    shell = InteractiveShell.instance()
    names = ",".join(backends)
    _run(shell, "%load_ext dynamo_ext")
    _run(shell, f"WIDTH = {QUICK_WIDTH if form.tiny else WIDTH}\n{cell.setup}")
    counts = {}
    for backend in backends:
        for _ in range(3):
            _run(shell, f"%%dynamo --quiet -b {backend} -o report\n{cell.cell}")
        graphs = [graph for graph in shell.user_ns["report"].graphs if graph.calls]
        counts[backend] = (
            len(graphs),
            sum(graph.calls for graph in graphs),
            sum(graph.ran_in_engine for graph in graphs),
        )
    _run(shell, f"%%dynamo compare --quiet -b {names} --budget {budget} -o result\n{cell.cell}")
    result = shell.user_ns["result"]
    eager = result["eager"].timing
    gains = []
    for backend in backends:
        row = result[backend]
        gain = Gain(backend, row.outcome, 0.0, 0.0, 0.0, row.reason, *counts[backend])
        if row.outcome == "measured" and row.speedup is not None:
            speed = row.speedup
            gain = replace(gain, ratio=speed.ratio, low=speed.low, high=speed.high)
        gains.append(gain)
    return Row(name, eager.median if eager else 0.0, tuple(gains))


def _run(shell: InteractiveShell, text: str) -> None:
    done: Any = shell.run_cell(text)  # type: ignore[no-untyped-call]
    done.raise_error()


def main() -> None:
    """Print the row of one cell."""
    parser = model_parser("One cell with a loop, in this process.", 15.0, CELLS)
    parser.add_argument("--backends", default="aot_eager,inductor,onnxrt")
    given = parser.parse_args()
    form = Form.of(given)
    if form.special:
        parser.error("The cells have one size, and run on the CPU.")
    backends = given.backends.split(",")
    workers.go_through(
        [given.model], lambda name: [measure(name, backends, form=form, budget=given.budget)]
    )


if __name__ == "__main__":
    main()
