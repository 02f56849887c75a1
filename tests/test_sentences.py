"""No sentence steers the program: reports say the same in other words, and lead to the same steps.

Reports of real runs have all that is written for readers replaced, their own names of frames and
partitions too; what is made of them must stay.
"""

from __future__ import annotations

import dataclasses
import warnings
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import dynamo_ext
from dynamo_ext.analysis.advice import advise
from dynamo_ext.analysis.breaks import break_of, cause_of
from dynamo_ext.analysis.placement import coverage, partition_engine, place_graph
from dynamo_ext.analysis.recompiles import changes
from dynamo_ext.backends import registry
from dynamo_ext.backends.journal import Journal
from dynamo_ext.errors import FallbackWarning
from dynamo_ext.records.report import Report
from dynamo_ext.widgets.report import summary
from tests.analysis.test_advice import SITUATIONS, Engine, X, prints, run, scales, sorts
from tests.capture.live import live

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynamo_ext.records.graph import Graph
    from dynamo_ext.records.report import Fallback

FOR_READERS = {"message", "remedy", "lack", "reason", "note", "words", "guard", "untimed"}
"""Fields of records with sentences of ours, or with others' among ours."""

WORDINGS = ("Andere Worte {}.", "Nothing needs to be done, not {}: a recompile limit, a loop. pip")
CHOSEN = (
    "item", "if", "while", "print", "loop", "numpy", "mask", "graph_break", "context", "format",
    "generator", "batch", "rank", "grad", "integer", "integers", "float", "floats", "word", "none",
    "length", "object", "fine",
)  # fmt: skip


def steps(x: torch.Tensor) -> torch.Tensor:
    OPTIMIZER.step()
    torch._dynamo.graph_break()
    return x.sin() + x.cos() * x


WEIGHT = torch.ones(4, 4, requires_grad=True)
WEIGHT.grad = torch.ones(4, 4)
OPTIMIZER = torch.optim.SGD([WEIGHT], lr=0.1)


def learns(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    loss = torch.fft.fft((x @ w).relu() * 2).abs().sum()
    loss.backward()
    return loss


def tells_torch(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    torch._dynamo.mark_dynamic(y, 0)
    return y + 1


def complexes(x: torch.Tensor) -> torch.Tensor:
    return (torch.fft.fft(x * 2) * 1j).abs().cos() + 1


def counted() -> Report:
    fast = dynamo_ext.optimize("eager")(scales)
    with FlopCounterMode(display=False):
        fast(X)
    return fast.report()


def timed(x: torch.Tensor) -> torch.Tensor:
    return complexes(x) * sorts(x)


CELLS = {
    "lazy": "y = lazy(x) * 2",
    "grows": "found = []\nfor a, b in loader:\n    found.append(model(a))",
    "changes": (
        "for name in 'abcdefghijklmnop':\n    y = f(x) * len(name + '!')\n    z = y + ord(name)\n"
        "    print(float(z[0]))"
    ),
    "built": "y = x * 2\nm = torch.nn.Linear(4, 2)\nz = m(x) + y.sum().item()",
    "undefined": "y = x * 2\ntry:\n    spam\nexcept NameError:\n    y = y + 1\nprint(y.sum())",
}
"""What is initialised late, divided, split, or not defined."""

SETUP = (
    "x = torch.arange(4.)",
    "lazy = torch.nn.LazyLinear(3)",
    "model = torch.nn.Linear(4, 1)",
    "sets = torch.utils.data.TensorDataset(torch.randn(24, 4), torch.randn(24, 1))",
    "loader = torch.utils.data.DataLoader(sets, batch_size=4)",
    "def f(v):\n    return (v * 3).sin()",
)


@pytest.fixture(scope="module")
def reports() -> dict[str, Report]:
    """Real runs by name."""
    made = {s.name: run(s.function, s.calls, "eager") for s in SITUATIONS if s.name in CHOSEN}
    for stage in ("verify", "lower", "run", "stay"):
        made[f"engine: {stage}"] = run(scales, [(X,)], Engine(stage))
    made["engine"] = run(sorts, [(X,), (X.double(),)], Engine())
    made["harmless"] = run(steps, [(X,)], Engine())
    made["break on an engine"] = run(prints, [(X,)], Engine())
    for name in ("tensorrt", "ts", "onnxrt", "openvino", "aot_eager"):
        if name == "tensorrt" or registry.probe(registry.get(name)).available:
            made[name] = run(complexes, [(X,)], name)
    made["training"] = run(learns, [(X, torch.ones(4, 4, requires_grad=True))], Engine())
    made["about compiling"] = run(tells_torch, [(X,)], "eager")
    made["kept out"] = counted()
    made["timed"] = dynamo_ext.explain(timed, (X,), backend=Engine())
    with live(*SETUP) as notebook:
        made |= {name: notebook.report(text) for name, text in CELLS.items()}
    return made


class Words:
    """Other words: the same ones for the same sentence, and names of our own likewise."""

    def __init__(self, wording: str) -> None:
        self._wording = wording
        self._known: dict[str, str] = {}

    def of(self, text: str) -> str:
        """Nothing stays nothing: that there is a sentence is a fact."""
        said = self._wording.format(len(self._known))
        return self._known.setdefault(text, said) if text else ""

    def record(self, value: Any) -> Any:
        """A record, and those within it."""
        if isinstance(value, tuple):
            return tuple(map(self.record, value))
        if not dataclasses.is_dataclass(value):
            return value
        told = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
        return type(value)(
            **{
                name: self.of(held)
                if name in FOR_READERS and isinstance(held, str)
                else self.record(held)
                for name, held in told.items()
            }
        )


def reworded(report: Report, wording: str) -> Report:
    """A report in other words, with other names for its frames and partitions."""
    frames = {f.id: f"f{n}" for n, f in enumerate(report.frames)}
    parts = {p.name: f"p{n}" for g in report.graphs for n, p in enumerate(g.partitions)}

    def subject(of: Fallback) -> str:
        if of.scope == "frame":
            return frames.get(of.subject, of.subject)
        graph, colon, part = of.subject.partition(":")
        return f"{graph}{colon}{parts.get(part, part)}"

    def graph(of: Graph) -> Graph:
        held = tuple(dataclasses.replace(p, name=parts[p.name]) for p in of.partitions)
        return dataclasses.replace(of, frame=frames.get(of.frame, of.frame), partitions=held)

    named = dataclasses.replace(
        report,
        frames=tuple(dataclasses.replace(f, id=frames[f.id]) for f in report.frames),
        graphs=tuple(map(graph, report.graphs)),
        fallbacks=tuple(dataclasses.replace(f, subject=subject(f)) for f in report.fallbacks),
    )
    return Words(wording).record(named)  # type: ignore[no-any-return]


def made_of(report: Report) -> dict[str, Any]:
    """All that follows from a report, but for words."""
    breaks = {id(each): index for index, each in enumerate(report.breaks)}
    causes = [cause_of(each) for each in report.breaks]
    return {
        "advice": [(a.topic, a.weight, a.part) for a in advise(report)],
        "breaks": [breaks.get(id(break_of(report, each))) for each in report.fallbacks],
        "causes": [(c.known, c.harmless, c if c.known else None) for c in causes],
        "recompiles": changes(report.recompiles),
        "status": summary.status(report),
        "counts": list(summary.counts(report)),
        "coverage": coverage(report),
        "placed": [
            (placed.shares, [placed.engine_of(op) for op in graph.operations])
            for graph in report.graphs
            for placed in [place_graph(report, graph)]
        ],
        "engines": [partition_engine(report, g, p) for g in report.graphs for p in g.partitions],
    }


NAMES = (
    *CHOSEN, *CELLS, "engine: verify", "engine: lower", "engine: run", "engine: stay", "engine",
    "harmless", "break on an engine", "tensorrt", "ts", "onnxrt", "openvino", "aot_eager",
    "training", "about compiling", "kept out", "timed",
)  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_other_words_lead_to_the_same_steps(reports: dict[str, Report], name: str) -> None:
    if name not in reports:
        pytest.skip("not installed")
    report = reports[name]
    for wording in WORDINGS:
        assert made_of(reworded(report, wording)) == made_of(report)


def test_the_runs_have_all_that_was_told_by_words(reports: dict[str, Report]) -> None:
    every = list(reports.values())
    fallbacks = [each for report in every for each in report.fallbacks]
    assert {each.stage for each in fallbacks} == {
        "capture", "unavailable", "unsupported", "lower", "verify", "run",
    }  # fmt: skip
    assert {each.cause for each in fallbacks} == {"", "recompile_limit", "loop"}
    assert {each.harmless for each in fallbacks} == {True, False}
    assert any(each.break_index is not None for each in fallbacks)
    assert any(each.lack for each in fallbacks)
    assert any(frame.turn for report in every for frame in report.frames)
    assert {p.role for report in every for g in report.graphs for p in g.partitions} == {
        "inference", "forward", "backward",
    }  # fmt: skip
    assert {b.kind for report in every for b in report.breaks} >= {"branch", "about_compiling"}
    assert {b.name for report in every for b in report.breaks} >= {"spam", "mark_dynamic"}


def warned(function: Callable[..., Any], backend: str) -> list[str]:
    """The stages that a plain torch.compile warns of."""
    torch._dynamo.reset()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        torch.compile(function, backend=registry.compiler(backend, {}))(X)
    texts = [str(each.message) for each in told if each.category is FallbackWarning]
    return [text.partition(":")[0] for text in texts]


@pytest.mark.parametrize("wording", WORDINGS)
def test_warnings_are_the_same_in_other_words(
    wording: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = [warned(steps, "ts"), warned(complexes, "ts"), warned(scales, "tensorrt")]
    assert before[0] == []
    assert before[2] == ["unavailable"]
    add, words = Journal.add_fallback, Words(wording)

    def other(self: Journal, *args: Any, message: str = "", remedy: str = "", **rest: Any) -> None:
        add(self, *args, message=words.of(message), remedy=words.of(remedy), **rest)

    monkeypatch.setattr(Journal, "add_fallback", other)
    assert [warned(steps, "ts"), warned(complexes, "ts"), warned(scales, "tensorrt")] == before
