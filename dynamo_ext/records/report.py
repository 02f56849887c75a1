"""The record of one run."""

import dataclasses
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from dynamo_ext.records import forms
from dynamo_ext.records.autotune import EndToEnd
from dynamo_ext.records.capture import Frame, GraphBreak, Guard, LoopTurns, Recompile
from dynamo_ext.records.common import CodeBlock, SourceLine, saved, structured
from dynamo_ext.records.graph import Graph

SCHEMA_VERSION = 4

Mode = Literal["optimize", "run", "explain"]

FallbackStage = Literal["capture", "unavailable", "unsupported", "lower", "verify", "run", "random"]

FallbackScope = Literal["run", "frame", "graph", "partition"]

FallbackCause = Literal["", "recompile_limit", "loop", "time"]


@dataclass(frozen=True)
class Fallback:
    """A stage that failed and fell back to eager; ``random``: numbers that are not eager's.

    ``subject`` is the id of the frame, graph or partition (``graph:partition``), empty for the run.
    ``operator`` is one that is to blame. ``count`` is the number of times in this run; a
    compile-time fallback that still holds counts 1. ``harmless``: nothing need be done. ``cause``
    is ``recompile_limit``, or ``loop`` where a loop around the place keeps the frame from being
    split. ``lack`` is what an unavailable backend lacks. ``break_index`` is that into
    ``Report.breaks`` of the break that gave the frame up.
    """

    stage: FallbackStage
    scope: FallbackScope
    subject: str
    operator: str
    exception: str
    message: str
    remedy: str
    count: int = 1
    line: SourceLine | None = None
    harmless: bool = False
    cause: FallbackCause = ""
    lack: str = ""
    break_index: int | None = None


@dataclass(frozen=True)
class Report:
    """The record of one run of a cell, function or module.

    ``cell`` is the text that ran, if any, ``functions`` the user's others that operations or breaks
    are of. ``seconds`` is the wall time of the run: of that,
    ``compile_seconds`` went to compiling, ``profile_seconds`` to timing operations (``--profile``;
    meanwhile other programs kept ``profile_busy_cores`` busy), ``race_seconds`` to ``auto``'s
    races, ``paired_seconds`` to further calls of graphs in their engine and in eager. Meanwhile
    other programs kept ``busy_cores`` busy. ``loads``
    are what was loaded before it, torch._dynamo and the backend's engine, with the seconds.
    ``end_to_end`` is there where ``auto`` was given a bound of accuracy. ``line`` is what stood
    behind ``%%dynamo``, ``program`` the call that compiles a model so. ``plain_runs`` are seconds
    of plain cells of the same text in this kernel, ``turns`` the cell's loops that were timed both
    ways, and ``spent_before`` what earlier runs of the cell took to compile and race.
    ``interrupted`` and ``error`` (the user's own exception, as one line) say how it ended,
    ``stopped_at`` at which line of the cell (or 0). ``refused``: the error is Dynamo's, since one
    graph was asked for.
    """

    mode: Mode
    backend: str
    title: str
    cell: CodeBlock | None
    seconds: float
    compile_seconds: float
    frames: tuple[Frame, ...] = ()
    graphs: tuple[Graph, ...] = ()
    breaks: tuple[GraphBreak, ...] = ()
    guards: tuple[Guard, ...] = ()
    recompiles: tuple[Recompile, ...] = ()
    fallbacks: tuple[Fallback, ...] = ()
    error: str = ""
    interrupted: bool = False
    versions: tuple[tuple[str, str], ...] = ()
    profile_seconds: float = 0.0
    refused: bool = False
    stopped_at: int = 0
    race_seconds: float = 0.0
    profile_busy_cores: float = 0.0
    functions: tuple[CodeBlock, ...] = ()
    paired_seconds: float = 0.0
    end_to_end: EndToEnd | None = None
    loads: tuple[tuple[str, float], ...] = ()
    line: str = ""
    program: str = ""
    plain_runs: tuple[float, ...] = ()
    turns: tuple[LoopTurns, ...] = ()
    spent_before: float = 0.0
    schema: int = SCHEMA_VERSION
    busy_cores: float = 0.0

    @property
    def run_seconds(self) -> float:
        """The part of the run that was neither compiling, racing, checking nor timing."""
        apart = self.compile_seconds + self.race_seconds + self.confirm_seconds
        return max(self.seconds - apart - self.profile_seconds - self.paired_seconds, 0.0)

    @property
    def running_seconds(self) -> tuple[float, float]:
        """What calls of graphs took, and their backward passes; each the whole run at most."""
        # A graph's time can hold another's.
        calls = sum(graph.run_seconds for graph in self.graphs)
        backward = sum(graph.backward_seconds for graph in self.graphs)
        return min(calls, self.seconds), min(backward, self.seconds)

    @property
    def outside_seconds(self) -> float:
        """The part of the run that was Python and uncaptured code."""
        return max(self.run_seconds - sum(self.running_seconds), 0.0)

    @property
    def confirm_seconds(self) -> float:
        """What this run spent on checking a bound of accuracy on all that the cell gives."""
        return self.end_to_end.seconds if self.end_to_end else 0.0

    def __repr__(self) -> str:
        """One line; ``dynamo_ext.widgets.display_report`` shows it all."""
        counts = (
            f"{len(getattr(self, name))} {name}"
            for name in ("graphs", "breaks", "guards", "recompiles", "fallbacks")
        )
        what = " ".join(part for part in (self.mode, self.backend) if part)
        return f"<Report of {self.title}: {what}, {', '.join(counts)}>"

    def _repr_html_(self) -> str:
        """Its static form, for any front end that shows html."""
        return str(forms.report("html", self))

    def to_markdown(self) -> str:
        """Verdict, code, breaks, failed guards, fallbacks, versions: for an issue, say."""
        return str(forms.report("markdown", self))

    def to_html(self) -> str:
        """All of it as a page that needs neither a kernel nor a network."""
        return str(forms.report("page", self))

    def plot(self, axes: Any = None) -> Any:
        """Draw seconds of each part of the run as bars on matplotlib's ``axes``, which it returns.

        Without ``axes`` they are new ones, in a figure of pyplot's. Raises ``OptionError`` where
        matplotlib is not installed.
        """
        return forms.report("plot", self, axes)

    def save(self, path: str | Path) -> Path:
        """Write ``.html``, ``.json`` (``from_dict`` reads it back), ``.md`` or ``.txt``.

        Raises ``OptionError`` for another ending.
        """
        writers = {
            ".html": self.to_html,
            ".json": lambda: json.dumps(self.to_dict()),
            ".md": self.to_markdown,
            ".txt": lambda: str(forms.report("text", self)),
        }
        return saved(path, "A report", writers)

    def to_dict(self) -> dict[str, Any]:
        """Plain dicts, lists, strings and numbers, ready for ``json.dumps``."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, record: dict[str, Any]) -> Self:
        """A report from ``to_dict`` or its JSON; else raises ``RecordFormatError``."""
        return structured(cls, record, SCHEMA_VERSION, "a dynamo_ext report", "Report.to_dict()")
