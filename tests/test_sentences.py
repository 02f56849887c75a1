"""No sentence steers the program: reports say the same in other words, and lead to the same steps.

Reports of real runs have all that is written for readers replaced, their own names of frames and
partitions too; what is made of them must stay.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest

from dynamo_ext.analysis.advice import advise
from dynamo_ext.analysis.breaks import break_of, cause_of
from dynamo_ext.analysis.placement import coverage, partition_engine, place_graph
from dynamo_ext.analysis.recompiles import changes
from dynamo_ext.records.report import Report
from dynamo_ext.widgets.report import summary
from tests.analysis.test_advice import SITUATIONS, Engine, X, prints, run, scales, sorts
from tests.capture.live import live

if TYPE_CHECKING:
    from dynamo_ext.records.graph import Graph
    from dynamo_ext.records.report import Fallback

FOR_READERS = {"message", "remedy", "lack", "reason", "note", "words", "guard", "untimed"}
"""Fields of records with sentences of ours, or with others' among ours."""

WORDINGS = ("Andere Worte {}.", "Nothing needs to be done, not {}: a recompile limit, a loop. pip")
CELLS = {
    "grows": "found = []\nfor a, b in loader:\n    found.append(model(a))",
    "built": "y = x * 2\nm = torch.nn.Linear(4, 2)\nz = m(x) + y.sum().item()",
    "undefined": "y = x * 2\ntry:\n    spam\nexcept NameError:\n    y = y + 1\nprint(y.sum())",
}
"""What is divided, split, or not defined."""

SETUP = (
    "x = torch.arange(4.)",
    "model = torch.nn.Linear(4, 1)",
    "sets = torch.utils.data.TensorDataset(torch.randn(24, 4), torch.randn(24, 1))",
    "loader = torch.utils.data.DataLoader(sets, batch_size=4)",
)


@pytest.fixture(scope="module")
def reports() -> dict[str, Report]:
    """Real runs by name."""
    made = {each.name: run(each.function, each.calls, "eager") for each in SITUATIONS}
    for stage in ("verify", "lower", "run", "stay"):
        made[f"engine: {stage}"] = run(scales, [(X,)], Engine(stage))
    made["engine"] = run(sorts, [(X,), (X.double(),)], Engine())
    made["break on an engine"] = run(prints, [(X,)], Engine())
    made["tensorrt"] = run(sorts, [(X,)], "tensorrt")
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


def test_other_words_lead_to_the_same_steps(reports: dict[str, Report]) -> None:
    for name, report in reports.items():
        for wording in WORDINGS:
            assert made_of(reworded(report, wording)) == made_of(report), name
