"""One model captured and run as it is, in this process."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

import dynamo_ext
from benchmarks.stored_row import ModelRow
from benchmarks.zoo import MODELS
from benchmarks.zoo.form import Form

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

    from torch.fx import GraphModule

    from dynamo_ext.records.report import Report

WARM = 3
COUNTED = 5
"""Calls in which operations are counted and timed."""


MARK = "a captured graph"


@dataclass(frozen=True)
class Row(ModelRow):
    """One model under the ``eager`` backend: captured, and run as it is.

    ``inside`` and ``outside`` count ATen operations of one call in and outside of captured graphs,
    ``inside_seconds`` and ``outside_seconds`` what they took. ``ratio`` with ``low`` and ``high``
    is plain eager's time over that under Dynamo with its 95 % interval, ``overhead_seconds`` the
    difference of the medians. A model that could not be measured has an ``error``.
    """

    model: str
    quick: bool = False
    inside: int = 0
    outside: int = 0
    inside_seconds: float = 0.0
    outside_seconds: float = 0.0
    graph_calls: int = 0
    sizes: tuple[int, ...] = ()
    breaks: int = 0
    reasons: tuple[str, ...] = ()
    eager_seconds: float = 0.0
    ratio: float = 0.0
    low: float = 0.0
    high: float = 0.0
    overhead_seconds: float = 0.0
    first_seconds: float = 0.0
    error: str = ""

    @property
    def share(self) -> float:
        """Of the operations, how many were captured."""
        return self.inside / max(self.inside + self.outside, 1)

    @property
    def time_share(self) -> float:
        """The same by the time that they take."""
        total = self.inside_seconds + self.outside_seconds
        return self.inside_seconds / total if total else 0.0


@dataclass
class Counter:
    """Counts and times ATen operations, by whether a captured graph runs them.

    ``counts`` and ``seconds`` are of the operations that no other one calls, in graphs (``True``)
    and outside of them; ``graph_calls`` how often a graph ran. On a ``cuda`` device seconds are
    those of the kernels.
    """

    cuda: bool = False
    sizes: list[int] = field(default_factory=list)
    graph_calls: int = 0
    counts: dict[bool, int] = field(default_factory=lambda: {False: 0, True: 0})
    seconds: dict[bool, float] = field(default_factory=lambda: {False: 0.0, True: 0.0})

    def compiler(self, graph: GraphModule, _inputs: list[Any]) -> Callable[..., Any]:
        """Run a captured graph as it is, marked for the profiler."""
        self.sizes.append(sum(node.op.startswith("call_") for node in graph.graph.nodes))

        def run(*args: Any) -> Any:
            with torch.profiler.record_function(MARK):
                return graph.forward(*args)

        return run

    def learner(self) -> Callable[..., Any]:
        """A compiler that does so with the graph of the gradients, too."""
        from torch._dynamo.backends.common import aot_autograd
        from torch._functorch.aot_autograd import make_boxed_func

        def boxed(graph: GraphModule, inputs: list[Any]) -> Any:
            return make_boxed_func(self.compiler(graph, inputs))

        made: Callable[..., Any] = aot_autograd(fw_compiler=boxed, bw_compiler=boxed)
        return made

    def count(self, call: Callable[[], object]) -> None:
        """Run something under torch's profiler, and add up what it did."""
        kinds = torch.profiler.ProfilerActivity
        activities = [kinds.CPU, *([kinds.CUDA] if self.cuda else [])]
        with torch.profiler.profile(activities=activities) as seen:
            call()
        for event in seen.events() or ():
            self.graph_calls += event.name == MARK
            above = list(_above(event))
            if event.name.startswith("aten::") and not any(n.startswith("aten::") for n in above):
                inside = MARK in above
                self.counts[inside] += 1
                taken = event.device_time_total if self.cuda else event.cpu_time_total
                self.seconds[inside] += taken * 1e-6


def _above(event: Any) -> Iterator[str]:
    while (event := event.cpu_parent) is not None:
        yield event.name


def measure(name: str, given: argparse.Namespace) -> Row:
    """Count what is captured of a model, and time what that costs."""
    form = Form.of(given)
    built = MODELS[name].build(form)
    counter = Counter(cuda=torch.device(form.device).type == "cuda")
    compiler = counter.learner() if built.module.training else counter.compiler
    with built.gradients():
        fast = dynamo_ext.optimize(compiler)(built.module)
        started = time.perf_counter()
        fast(*built.args, **built.kwargs)
        first = time.perf_counter() - started
        for _ in range(WARM):
            fast(*built.args, **built.kwargs)
        for _ in range(COUNTED):
            counter.count(lambda: fast(*built.args, **built.kwargs))
        report = fast.report()
        found = dynamo_ext.compare(
            built.module, built.args, ["eager"], kwargs=built.kwargs, budget=given.budget
        )
    base, under = found["eager"].timing, found["eager under Dynamo"]
    if base is None or under.timing is None or under.speedup is None:
        return Row(name, form.tiny, error=under.reason or "It was not timed.")
    return Row(
        name,
        form.tiny,
        inside=counter.counts[True] // COUNTED,
        outside=counter.counts[False] // COUNTED,
        inside_seconds=counter.seconds[True] / COUNTED,
        outside_seconds=counter.seconds[False] / COUNTED,
        graph_calls=counter.graph_calls // COUNTED,
        sizes=tuple(counter.sizes),
        breaks=sum(each.count for each in report.breaks),
        reasons=_reasons(report),
        eager_seconds=base.median,
        ratio=under.speedup.ratio,
        low=under.speedup.low,
        high=under.speedup.high,
        overhead_seconds=under.timing.median - base.median,
        first_seconds=first,
    )


def _reasons(report: Report) -> tuple[str, ...]:
    """Why the rest was not captured, each once."""
    said = [each.reason for each in report.breaks] + [each.reason for each in report.frames]
    lines = [reason.strip().splitlines()[0] for reason in said if reason.strip()]
    return tuple(dict.fromkeys(lines))
