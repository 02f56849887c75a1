"""Situations that users get into, run for real, and what is advised in each."""

from __future__ import annotations

import contextlib
import dataclasses
import inspect
import io
import logging
import random
import time
import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
import torch

import dynamo_ext
from dynamo_ext.analysis.advice import advise
from dynamo_ext.analysis.advice_step import NEGLIGIBLE_WEIGHT
from dynamo_ext.analysis.breaks import cause_of
from dynamo_ext.analysis.recompiles import changes
from dynamo_ext.capture.listen.run_log import FrameEntry, RunLog
from dynamo_ext.errors import FallbackWarning
from dynamo_ext.formatting import seconds as duration
from dynamo_ext.records.autotune import GraphCandidateResult, GraphRace
from dynamo_ext.records.capture import Recompile
from dynamo_ext.records.common import SourceLine
from dynamo_ext.records.report import Fallback
from tests.analysis.test_capture_advice import report as capture_report
from tests.capture.live import live

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dynamo_ext.analysis.advice_step import Advice
    from dynamo_ext.records.report import Report

X = torch.linspace(-1, 1, 12).reshape(3, 4)
LOG = logging.getLogger("advice")


class Situation(NamedTuple):
    """A function, its calls, and what the first advice must say."""

    name: str
    function: Callable[..., Any]
    calls: Sequence[tuple[Any, ...]]
    topic: str
    problem: str
    step: str


def reads_item(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    total = y.sum().item()
    return y * 3 + total


def decides_by_item(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    return y * 3 if y.sum().item() > 5 else y


def prints_a_number(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    print("sum", float(y.sum()))  # noqa: T201
    return y * 3


def waits(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    time.sleep(0)
    return y * 3


def reads_int(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    return y[: int(x.abs().max())] * 3


def branches(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    if y.sum() > 0:
        y = y + 1
    return y * 3


def repeats(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    while y.sum() > 100:
        y = y / 2
    return y * 3


def prints(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    print("shape", y.shape)  # noqa: T201
    return y * 3


def prints_in_a_loop(x: torch.Tensor) -> torch.Tensor:
    for step in range(3):
        x = x * 2
        print(step)  # noqa: T201
    return x


def uses_numpy(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    return y + torch.from_numpy(np.sort(y.numpy()))


def makes_a_list(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    return y * len(y.tolist())


def logs(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    LOG.info("here")
    return y * 3


def warns(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    with contextlib.suppress(UserWarning):
        pass
    warnings.warn("odd", UserWarning, stacklevel=1)
    return y * 3


def asks_the_time(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    return y * 3 + (time.time() > 0)


def seeds(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    random.seed(0)
    return y * 3


def masks(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0] * 2


def finds_nonzero(x: torch.Tensor) -> torch.Tensor:
    return (x > 0).nonzero().float() * 2


def breaks_on_purpose(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    torch._dynamo.graph_break()
    return y * 3


def opens_a_file(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    with io.StringIO("text") as file:
        file.read()
    return y * 3


def formats_a_tensor(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    return y * len(f"{y.mean():.2f}")


MODEL = torch.nn.Linear(2, 2)


def hands_on_a_generator(x: torch.Tensor) -> torch.Tensor:
    weights = MODEL.parameters()
    print("now")  # noqa: T201
    return x * sum(w.sum() for w in weights)


def scales(x: torch.Tensor, by: Any = 2) -> torch.Tensor:
    return x.sin() * by


def chooses(x: torch.Tensor, how: Any) -> torch.Tensor:
    return x.sin() if how in {"sine", True} else x.cos()


def optional(x: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    return x.sin() if mask is None else x * mask


def adds_up(tensors: list[torch.Tensor]) -> torch.Tensor:
    return torch.stack([t.sin() for t in tensors]).sum()


def sums(named: dict[str, torch.Tensor]) -> torch.Tensor:
    return named["a"].sin() + 1


def applies(x: torch.Tensor, function: Callable[..., Any]) -> torch.Tensor:
    return function(x) * 2


def stops_early(x: torch.Tensor) -> torch.Tensor:
    for _ in range(5):
        x = x * 0.5
        if x.abs().max() < 0.1:
            break
    return x


def first_positive(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    for each in parts:
        if each.max() > 0:
            return each * 2
    return parts[0]


def keeps_positive(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0].sin().sum()


NET = torch.nn.Sequential(torch.nn.Linear(4, 4))

SITUATIONS = [
    Situation("item", reads_item, [(X,)], "break", "`.item()` reads a value", "Keep it a tensor"),
    Situation("item in if", decides_by_item, [(X,)], "break", "its `if` asks for the value", "torch.where"),
    Situation("float in print", prints_a_number, [(X,)], "break", "`float()` reads", "Keep it a tensor"),
    Situation("sleep", waits, [(X,)], "break", "`time.sleep`", "before or after the compiled"),
    Situation("int", reads_int, [(X,)], "break", "`int()` reads a value", "Keep it a tensor"),
    Situation("if", branches, [(X,)], "break", "its `if` asks for the value", "torch.where"),
    Situation("if that leaves a loop", stops_early, [(X,)], "uncaptured", "its `if` asks", "Run every step"),
    Situation("return from a loop", first_positive, [([X, -X],)], "break", "its `if` asks", "Run every step"),
    Situation("while", repeats, [(X,)], "break", "its `while` asks", "fixed number"),
    Situation("print", prints, [(X,)], "break", "it prints", "reorderable_logging_functions"),
    Situation("loop", prints_in_a_loop, [(X,)], "uncaptured", "it prints", "Print after"),
    Situation("numpy", uses_numpy, [(X,)], "break", "NumPy, which stays NumPy", "torch's own"),
    Situation("list", makes_a_list, [(X,)], "break", "`.tolist()` reads", "after the compiled"),
    Situation("log", logs, [(X,)], "break", "it logs", "ignore_logging_functions"),
    Situation("warn", warns, [(X,)], "break", "it warns", "before or after"),
    Situation("time", asks_the_time, [(X,)], "break", "does not trace `time.time`", "pass what"),
    Situation("seed", seeds, [(X,)], "break", "does not trace `random.seed`", "random.seed"),
    Situation("mask", masks, [(X,)], "break", "depends on the data", "torch.where"),
    Situation("nonzero", finds_nonzero, [(X,)], "break", "depends on the data", "dynamic_output"),
    Situation("graph_break", breaks_on_purpose, [(X,)], "break", "graph_break()", "Take the call"),
    Situation("context", opens_a_file, [(X,)], "uncaptured", "the context manager", "around"),
    Situation("format", formats_a_tensor, [(X,)], "uncaptured", "an exception goes", "move it"),
    Situation("generator", hands_on_a_generator, [(X,)], "uncaptured", "a generator", "Give a list"),
    Situation("batch", scales, [(X,), (X[:2],)], "recompile", "batch size of `x` (3, 2)", "dynamic=True"),
    Situation("width", scales, [(X,), (X[:, :2].contiguous(),)], "recompile", "dimension 1 of `x`", "mark_dynamic(x, 1)"),
    Situation("rank", scales, [(X,), (X.flatten(),)], "recompile", "number of dimensions", "Reshape"),
    Situation("dtype", scales, [(X,), (X.double(),)], "recompile", "(float32, float64)", "Cast"),
    Situation("strides", scales, [(X,), (X.t().contiguous().t(),)], "recompile", "layout", ".contiguous()"),
    Situation("grad", scales, [(X,), (X.clone().requires_grad_(),)], "recompile", "requires_grad", "no_grad"),
    Situation("integer", scales, [(X, 2), (X, 3)], "captured", "The code is captured", "dynamo_ext.compare()"),
    Situation("integers", scales, [(X, 2), (X, 3), (X, 2.5)], "recompile", "type of `by` (int, float)", "by = torch.tensor"),
    Situation("key", sums, [({"a": X},), ({"a": X[:2]},)], "recompile", "batch size of `named['a']`", "mark_dynamic(named['a'], 0)"),
    Situation("float", scales, [(X, 0.5), (X, 0.25)], "recompile", "float `by`", "torch.tensor"),
    Situation("floats", scales, [(X, i / 7) for i in range(12)], "recompile-limit", "stays in eager now, because the float `by` changed", "torch.tensor"),
    Situation("word", chooses, [(X, "sine"), (X, "cosine")], "recompile", "value of `how`", "number of values small"),
    Situation("flag", chooses, [(X, True), (X, False)], "recompile", "value of `how`", "number of values small"),
    Situation("none", optional, [(X, None), (X, X)], "recompile", "value of `mask` (None, Tensor)", "values small"),
    Situation("length", adds_up, [([X] * n,) for n in (4, 2, 5, 3)], "recompile", "length of `tensors`", "Stack"),
    Situation("object", applies, [(X, torch.sin), (X, torch.cos)], "recompile", "the object `function` in `applies`", "same one"),
    Situation("argument", NET, [(X,), (X[:2],)], "recompile", "batch size of `args[0]`", "dynamo_ext.optimize(…, dynamic=True)."),
    Situation("fine", scales, [(X,)], "captured", "The code is captured", "dynamo_ext.compare()"),
]  # fmt: skip


def run(
    function: Callable[..., Any], calls: Sequence[tuple[Any, ...]], backend: Any, **options: Any
) -> Report:
    torch._dynamo.reset()
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore", UserWarning)
        warnings.simplefilter("ignore", FallbackWarning)
        with torch.enable_grad():
            fast = dynamo_ext.optimize(backend, **options)(function)
            for args in calls:
                fast(*args)
    return fast.report()


def said(advice: Advice) -> str:
    return f"{advice.problem}. {advice.step} {advice.evidence}"


@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda s: s.name)
def test_the_first_advice_fits(situation: Situation) -> None:
    report = run(situation.function, situation.calls, "eager")
    first, *others = advise(report)
    assert first.topic == situation.topic, [said(each) for each in (first, *others)]
    assert situation.problem in first.problem
    assert situation.step in first.step
    assert first.evidence
    assert first.part
    topics = {each.topic for each in others}
    allowed = {"break"} if situation.topic in {"break", "uncaptured"} else {"recompile"}
    assert topics <= allowed, "nothing else is in the way"
    # Names of Dynamo's own, which the user's code cannot use.
    told = " ".join(map(said, (first, *others)))
    assert "___" not in told
    assert "mark_dynamic(args" not in told


def test_what_changed_after_a_break_as_before_it_is_counted_there() -> None:
    report = run(keeps_positive, [(X[0],), (torch.ones(7),)], "eager")
    assert [each.resumed for each in report.recompiles] == [False, True]
    [found] = changes(report.recompiles)
    assert (found.times, found.values) == (2, ("4", "7"))
    assert "mark_dynamic(x, 0)" in found.step


def test_a_size_that_only_the_data_decides_is_marked_by_an_option_alone() -> None:
    first, second = torch.tensor([1.0, 1, -1, -1]), torch.tensor([1.0, 1, 1, -1])
    report = run(keeps_positive, [(first,), (second,)], "eager")
    [found] = changes(report.recompiles)
    line = inspect.getsourcelines(keeps_positive)[1] + 1
    at = f"line {line} of `keeps_positive` in test_advice.py"
    assert found.what == f"the batch size of what {at} computes"
    assert found.step == "Mark it dynamic: %%dynamo --dynamic."


class Engine(dynamo_ext.Backend):
    """Refuses ``sort``, and fails in one stage if a test says so."""

    name = "engine"

    def __init__(self, failing: str = "") -> None:
        self.failing = failing

    def supports(self, node: Any) -> Any:
        return dynamo_ext.Support("sort" not in str(node.target), "engine has no sort.")

    def lower(self, graph: Any, example_inputs: Any, options: Any) -> Any:
        if self.failing == "lower":
            msg = "out of registers"
            raise RuntimeError(msg)
        if self.failing == "stay":
            msg = "It is too small."
            raise dynamo_ext.StayEager(msg, "Batch more.")

        def run(*args: Any) -> Any:
            if self.failing == "run":
                msg = "out of memory"
                raise RuntimeError(msg)
            outputs = graph(*args)
            return [o + 1 for o in outputs] if self.failing == "verify" else outputs

        return run


def sorts(x: torch.Tensor) -> torch.Tensor:
    ahead = (x.sin() * 2).tanh().cos()
    return torch.sort(ahead)[0].cos() + 1


@pytest.mark.parametrize(
    ("failing", "topic", "problem", "step"),
    [
        ("verify", "verify", "gave other results than eager", "dynamo_ext.compare()"),
        ("lower", "lower", "could not be built: out of registers", "dynamo_ext.compare()"),
        ("run", "run", "failed while it ran: out of memory", "dynamo_ext.compare()"),
        ("stay", "unsupported", "It is too small", "Batch more."),
    ],
)
def test_an_engine_that_fails(failing: str, topic: str, problem: str, step: str) -> None:
    first = advise(run(scales, [(X,)], Engine(failing)))[0]
    assert first.topic == topic
    assert problem in first.problem
    assert step in first.step
    assert first.part == "Fallbacks"


def test_an_operator_that_the_engine_lacks_is_named_with_its_share() -> None:
    (first,) = advise(run(sorts, [(X,)], Engine()))
    assert first.topic == "unsupported"
    assert "keeps 1 of 7 operations out of engine: engine has no sort" in first.problem
    assert "dynamo_ext.compare()" in first.step
    assert (
        first.evidence
        == "14% of the operations; 2 more stand in stretches too short for it; the graph runs in 3 parts"
    )


def test_a_stretch_of_one_operation_is_too_short_as_well() -> None:
    def ends(x: torch.Tensor) -> torch.Tensor:
        return torch.sort((x.sin() * 2).tanh().cos())[0].cos()

    (first,) = advise(run(ends, [(X,)], Engine()))
    assert "; 1 more stands in stretches too short for it" in first.evidence


def test_the_parts_of_several_graphs_are_not_those_of_one() -> None:
    report = run(sorts, [(X,), (X.double(),)], Engine())
    evidence = [each.evidence for each in advise(report) if each.topic == "unsupported"]
    assert len(report.graphs) == 2
    assert evidence[0].endswith("; 2 graphs run in 6 parts")


def test_a_wrong_result_comes_before_a_split() -> None:
    topics = [each.topic for each in advise(run(prints, [(X,)], Engine("verify")))]
    assert topics[0] == "verify"
    assert "break" in topics


def test_a_backend_that_is_not_here_is_all_there_is_to_say() -> None:
    report = run(prints, [(X,)], "tensorrt")
    (first,) = advise(report)
    assert first.topic == "unavailable"
    assert first.step
    assert "ran eagerly" in first.evidence


def test_code_that_an_engine_takes_needs_a_step_only_where_it_is_slower() -> None:
    fast = dynamo_ext.optimize(Engine())(scales)
    fast(X)
    report = fast.report()
    assert advise(report) == ()
    plain = (9.0, 1.0, 1.1)
    (first,) = advise(
        dataclasses.replace(report, seconds=9.0, compile_seconds=0.0, plain_runs=plain)
    )
    assert first.topic == "slower"
    assert "dynamo_ext.compare()" in first.step


def test_where_nothing_is_in_the_way_the_costliest_operator_is_named() -> None:
    report = dynamo_ext.explain(lambda x: torch.relu(x @ x), (X[:2, :2],))
    (graph,) = report.graphs
    costly = tuple(
        dataclasses.replace(op, seconds=3.0 if "matmul" in op.target else op.seconds and 1.0)
        for op in graph.operations
    )
    graphs = (dataclasses.replace(graph, operations=costly),)
    idle = dataclasses.replace(report, graphs=graphs, profile_busy_cores=0.0)
    (first,) = advise(idle)
    assert first.topic == "profiled"
    assert "`matmul` has 75% of the operations' time in eager" in first.problem
    (first,) = advise(dataclasses.replace(idle, profile_busy_cores=0.5))
    assert first.topic == "captured"


def test_where_eager_won_the_race_nothing_is_advised() -> None:
    report = run(scales, [(X,)], "eager")
    contest = GraphRace("eager", (GraphCandidateResult("eager", "won"),))
    graphs = tuple(dataclasses.replace(g, contest=contest) for g in report.graphs)
    raced = dataclasses.replace(report, backend="auto", graphs=graphs, compile_seconds=0.0)
    assert not advise(raced)
    timed = tuple(dataclasses.replace(op, seconds=1.0) for op in graphs[0].operations)
    graphs = (dataclasses.replace(graphs[0], operations=timed),)
    assert not advise(dataclasses.replace(raced, graphs=graphs))


def test_calls_that_fitted_nothing_are_said_under_run() -> None:
    report = run(scales, [(X,), (X.double(),)], "eager")
    (recompile,) = report.recompiles
    prevented = dataclasses.replace(
        report, mode="run", recompiles=(dataclasses.replace(recompile, prevented=True),)
    )
    first = advise(prevented)[0]
    assert first.topic == "not-reused"
    assert "run never compiles" in first.step


def test_that_an_optimizers_step_is_eagers_is_no_problem() -> None:
    weight = torch.ones(4, 4, requires_grad=True)
    weight.grad = torch.ones(4, 4)
    optimizer = torch.optim.SGD([weight], lr=0.1)

    def step(x: torch.Tensor) -> torch.Tensor:
        optimizer.step()
        torch._dynamo.graph_break()
        return x.sin() + x.cos() * x

    found = advise(run(step, [(X,)], Engine()))
    (left,) = [each for each in found if each.topic == "unsupported"]
    assert left.step.startswith("Nothing needs to be done")
    assert left.weight < min(each.weight for each in found if each is not left)


def test_backward_is_no_problem() -> None:
    def trains(x: torch.Tensor, w: torch.Tensor) -> Any:
        loss = (x @ w).relu().sum()
        loss.backward()
        return w.grad

    found = advise(run(trains, [(X, torch.ones(4, 4, requires_grad=True))], "eager"))
    assert [each.topic for each in found] == ["captured", "break"]
    assert "Nothing needs to be done" in found[1].step


def test_what_torch_splits_itself_is_not_advised_about() -> None:
    weight = torch.ones(4, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    weight.grad = torch.ones(4)

    def steps(x: torch.Tensor) -> torch.Tensor:
        optimizer.step()
        return x.sin()

    report = run(steps, [(X,)], "eager")
    assert not any("optimizer.py" in each.problem for each in advise(report))
    assert not any("graph_break()" in each.problem for each in advise(report))
    causes = [cause_of(each) for each in report.breaks]
    assert any("torch's own optimizer" in each.because and each.harmless for each in causes)


def test_a_choice_by_a_captured_number_is_told_as_a_choice() -> None:
    with torch._dynamo.config.patch(capture_scalar_outputs=True):
        first, *others = advise(run(decides_by_item, [(X,)], "eager"))
    assert "its `if` asks for the value" in first.problem
    assert not others


def test_a_function_that_cannot_wait_is_called_by_its_name() -> None:
    with torch._dynamo.config.patch(reorderable_logging_functions={print}):
        first = advise(run(prints, [(X,)], "eager"))[0]
    assert "`print` is given what cannot wait" in first.problem
    assert "<" not in first.problem + first.step


def test_a_limit_met_before_points_to_no_empty_list() -> None:
    report = run(scales, [(X, i / 7) for i in range(12)], "eager")
    later = dataclasses.replace(report, recompiles=(), guards=(), graphs=())
    first = advise(later)[0]
    assert first.topic == "recompile-limit"
    assert "Guards" not in first.step + first.part
    assert "Keep a number that changes" in first.step


def test_an_error_of_the_users_is_not_advised_about() -> None:
    report = dataclasses.replace(run(scales, [(X,)], "eager"), error="ValueError: mine")
    assert not advise(report)


@pytest.mark.parametrize(
    ("cell", "splits"),
    [
        ("s = (x * 2).sum().item()", False),
        ("for _ in range(2):\n    s = (x * 2).sum().item()", False),
        ("y = x * 2\nprint(y.sum().item())", False),
        ("print((x * 2).sum().item()); t = x + 1", True),
        ("s = (x * 2).sum().item() * x", True),
        ("s = (x * 2).sum().item()\nt = x + 1", True),
    ],
)
def test_a_value_read_at_the_end_splits_nothing(cell: str, splits: bool) -> None:
    with live("import torch; x = torch.arange(3.)") as cells:
        report = cells.report(cell, "-b eager")
    assert report.breaks
    assert any(each.topic == "break" for each in advise(report)) is splits


def test_a_part_of_the_cell_is_not_said_to_be_all_of_it() -> None:
    text = "y = x * 2\noptimizer = torch.optim.SGD(model.parameters())\nz = y + 1"
    with live("x = torch.ones(2, 2)", "model = torch.nn.Linear(2, 2)") as cells:
        first = advise(cells.report(text))[0]
        assert first.problem.startswith("Part of the cell's own code runs as plain Python")
        first = advise(cells.report(text.splitlines()[1]))[0]
        assert first.problem.startswith("The cell's own code runs as plain Python")


def test_a_module_that_is_being_built_is_not_said_to_lack_its_super() -> None:
    module = (
        "class Block(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.a = torch.nn.Linear(4, 4)\n        self.b = torch.nn.Linear(4, 4)"
    )
    with live("import torch\n" + module) as cells:
        found = advise(cells.report("m = torch.nn.Sequential(Block(), Block())", "-b eager"))
    assert found
    assert {each.step for each in found} == {
        "Build it before the compiled code, as in a cell of its own."
    }


def test_what_is_built_in_a_cell_is_sent_to_one_of_its_own() -> None:
    build = "m = torch.nn.Linear(4, 2)\nopt = torch.optim.SGD(m.parameters(), lr=0.1)\n"
    train = "loss = m(torch.ones(3, 4)).sum()\nloss.backward()\nopt.step()"
    with live("import torch") as cells:
        found = advise(cells.report(build + train, "-b eager"))
        assert [each.topic for each in found] == ["uncaptured", "break", "break"]
        assert "module.py" not in found[0].problem
        step = "before the compiled code, as in a cell of its own"
        assert all(step in each.step for each in found), found
        cells.well(build)
        followed = advise(cells.report(train, "-b eager"))
    assert not any(each.topic == "uncaptured" or "its own" in each.step for each in followed)


def hooked() -> Report:
    """A model that gets a hook when it has run."""
    model, x = torch.nn.Sequential(torch.nn.Linear(8, 8)), torch.ones(2, 8)
    fast = dynamo_ext.optimize("eager")(model)
    fast(x)
    model[0].register_forward_hook(lambda *_: None)
    fast(x)
    return fast.report()


def test_a_hook_that_comes_later_is_named_as_what_compiled_anew() -> None:
    (found,) = [each for each in advise(hooked()) if each.topic == "recompile"]
    assert "the hooks of a module" in found.problem
    assert "before the first call" in found.step


def test_operators_that_stay_out_for_one_reason_are_one_advice() -> None:
    def complexes(x: torch.Tensor) -> torch.Tensor:
        return (torch.fft.fft(x * 2) * 1j).abs().cos() + 1

    found = advise(run(complexes, [(X,)], "openvino"))
    steps = [each for each in found if each.topic == "unsupported"]
    assert len({each.problem.split(": ")[1] for each in steps}) == len(steps)
    assert any(" and `" in each.problem and "` keep " in each.problem for each in steps)


def test_where_tracing_is_too_deep_pythons_words_are_not_shown() -> None:
    report = run(scales, [(X,)], "eager")
    subject = report.frames[0].id
    endless = Fallback("capture", "frame", subject, "", "RecursionError", "maximum depth", "")
    (found,) = [
        each
        for each in advise(dataclasses.replace(report, fallbacks=(endless,)))
        if each.topic == "uncaptured"
    ]
    assert "recursion limit" in found.problem
    assert "maximum depth" not in found.problem
    assert "before the compiled code" in found.step


def trains_in_a_loop(x: torch.Tensor) -> torch.Tensor:
    for _ in range(2):
        STEP.zero_grad()
        x = x.sin() * 2
    return x


STEP = torch.optim.SGD(NET.parameters(), lr=0.1)


def test_what_harms_nothing_at_a_split_keeps_a_loop_from_capture() -> None:
    first, *_ = advise(run(trains_in_a_loop, [(X,)], "eager"))
    assert first.topic == "uncaptured"
    assert "put the loop's body into a function" in first.step
    assert "Nothing needs" not in first.step


def test_recompiles_have_the_seconds_that_their_frames_took() -> None:
    report = run(adds, [(X, X), (X[:2], X[:2])], "eager")
    (recompile,) = report.recompiles
    (frame,) = [each for each in report.frames if each.id == recompile.frame]
    assert recompile.compile_seconds == frame.compile_seconds > 0
    (found,) = [each for each in advise(report) if each.topic == "recompile"]
    assert found.seconds == recompile.compile_seconds
    assert found.evidence.startswith(f"compiling again took {duration(found.seconds)} of this")
    (unknown,) = advise(
        dataclasses.replace(report, recompiles=(dataclasses.replace(recompile, compile_seconds=0),))
    )
    assert unknown.seconds == 0
    assert unknown.evidence.startswith(f"compiling took {duration(report.compile_seconds)} of")


def test_equal_recompiles_add_up_their_seconds() -> None:
    log = RunLog()
    for seconds in (1.0, 2.0):
        entry = FrameEntry("0/1", "f", "f.py", 1, lambda: None, seconds=seconds)
        log.add_recompile(Recompile("0/1", "f", "guard", "x", "1", "2"), entry)
    log.add_recompile(Recompile("0/1", "f", "guard", "x", "1", "3", prevented=True))
    found = log.all_recompiles()
    assert [(each.count, each.compile_seconds) for each in found] == [(2, 3.0), (1, 0.0)]


@pytest.mark.parametrize(
    ("took", "whole", "topics"),
    [
        (29.0, 30.0, ["recompile", "break"]),
        # Of little cost, of none that is known, or of little beside the whole run's.
        (1.0, 2.0, ["break", "recompile"]),
        (0.0, 30.0, ["break", "recompile"]),
        (3.0, 60.0, ["break", "recompile"]),
    ],
)
def test_what_is_known_to_have_cost_much_comes_first(
    took: float, whole: float, topics: list[str]
) -> None:
    report = run(prints, [(X,), (X[:2],)], "eager")
    recompiles = tuple(
        dataclasses.replace(each, compile_seconds=took if number == 0 else 0.0)
        for number, each in enumerate(report.recompiles)
    )
    found = advise(dataclasses.replace(report, recompiles=recompiles, seconds=whole))
    assert [each.topic for each in found] == topics


def test_the_first_step_is_the_same_one_where_seconds_differ_little() -> None:
    report = run(adds, [(X, X), (X[:2], X[:2])], "eager")
    (size,) = report.recompiles
    dtype = dataclasses.replace(size, subject="y", kind="dtype", dimension=None)

    def first(*took: float) -> str:
        pairs = zip((size, dtype), took, strict=True)
        both = tuple(dataclasses.replace(each, compile_seconds=spent) for each, spent in pairs)
        return advise(dataclasses.replace(report, recompiles=both, seconds=20.0))[0].step

    assert first(5.0, 6.0) == first(6.0, 5.0) != first(3.0, 9.0)


def test_what_needs_no_change_stays_last_whatever_it_cost() -> None:
    report = hooked()
    costly = tuple(dataclasses.replace(r, compile_seconds=29.0) for r in report.recompiles)
    found = advise(dataclasses.replace(report, recompiles=costly, seconds=30.0))
    assert found[-1].topic == "recompile"
    assert found[-1].weight < NEGLIGIBLE_WEIGHT


def test_an_operator_that_the_engine_lacks_has_its_seconds_in_eager() -> None:
    report = run(sorts, [(X,)], Engine())
    (graph,) = report.graphs
    timed = tuple(
        dataclasses.replace(op, seconds=3.0 if "sort" in op.target else 1.0)
        if op.opcode.startswith("call_")
        else op
        for op in graph.operations
    )
    graphs = (dataclasses.replace(graph, operations=timed, calls=2),)
    (first,) = advise(dataclasses.replace(report, graphs=graphs))
    assert first.seconds == 6.0
    assert ", 6.00 s over all calls; the graph runs in 3 parts" in first.evidence


def adds(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.sin().sum() + y.cos().sum()


def test_changes_with_one_remedy_are_one_advice() -> None:
    report = run(adds, [(X, X), (X[:2], X[:2])], "eager")
    (recompile,) = report.recompiles
    model = "/lib/python3.11/site-packages/models/one.py"
    theirs = dataclasses.replace(recompile, line=SourceLine(model, 1, "f", "", in_cell=False))
    other = dataclasses.replace(theirs, subject="y", dimension=1, expected="4", actual="3")
    (found,) = advise(dataclasses.replace(report, recompiles=(theirs, other)))
    told = "2 recompiles came from the batch size of `x` (3, 2) and dimension 1 of `y` (4, 3)"
    step = "Mark it dynamic: dynamo_ext.optimize(…, dynamic=True)."
    assert (found.problem, found.step) == (told, step)


@pytest.mark.parametrize(
    ("page", "told"),
    [
        ("gb0124", "Set torch._dynamo.config.capture_scalar_outputs = True."),
        ("gb0036", "Set torch._dynamo.config.capture_dynamic_output_shape_ops = True."),
        ("gb0291", "Add the method to torch._dynamo.config.ignore_logging_functions."),
        ("gb0105", "compile what computes"),
    ],
)
def test_a_librarys_code_has_remedies_from_outside(page: str, told: str) -> None:
    report = run(reads_item, [(X,)], "eager")
    (cut,) = report.breaks
    line = SourceLine("/lib/python3.11/site-packages/models/one.py", 3, "f", "", in_cell=False)
    theirs = dataclasses.replace(cut, registry_id=page, stack=(line,))
    (found,) = advise(dataclasses.replace(report, breaks=(theirs,)))
    assert found.topic == "library"
    assert "line 3 of `f` in one.py" in found.problem
    assert told in found.step
    harmless = dataclasses.replace(theirs, registry_id="gb0123")
    found = advise(dataclasses.replace(report, breaks=(harmless,)))
    assert found[-1].weight < found[0].weight
    assert "Nothing needs" in found[-1].step


@pytest.mark.parametrize(("run", "said"), [(0.008, True), (0.2, False)])
def test_what_cannot_pay_is_said_first(run: float, said: bool) -> None:
    made = dataclasses.replace(capture_report(run), seconds=run + 9.0)
    first = advise(made)[0]
    assert (first.topic == "too-small") is said
    if said:
        assert "would pay after 1,125 runs" in first.problem
