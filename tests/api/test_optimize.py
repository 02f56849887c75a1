"""``optimize`` and ``run`` without a notebook."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from typing import Any

import pytest
import torch

import dynamo_ext
from dynamo_ext.errors import BackendUnavailableError, OptionError, UnknownBackendError

X = torch.arange(3.0)


def double(x: torch.Tensor) -> torch.Tensor:
    """Twice."""
    return x * 2


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(x).relu()


def test_a_block_captures_what_it_calls() -> None:
    with dynamo_ext.optimize("eager") as session:
        y = double(X)
        double(X)
    assert torch.equal(y, X * 2)
    report = session.report
    (graph,) = report.graphs
    assert graph.calls == 2
    assert [(f.name, f.outcome) for f in report.frames] == [("double", "compiled")]
    assert report.cell is None
    assert report.seconds > 0


@pytest.mark.parametrize(
    "net", [Net(), torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())]
)
def test_a_module_is_captured_in_a_block_and_wrapped(net: torch.nn.Module) -> None:
    """Of torch's own, too, in whose files Dynamo by itself starts no trace."""
    with dynamo_ext.optimize("eager") as session:
        net(X)
    assert len(session.report.graphs) == 1
    wrapped = dynamo_ext.optimize("eager")(net)
    wrapped(X)
    assert len(wrapped.report().graphs) == 1


def test_a_decorator_keeps_the_functions_looks() -> None:
    @dynamo_ext.optimize("eager")
    def triple(x: torch.Tensor) -> torch.Tensor:
        """Thrice."""
        return x * 3

    assert triple(X).tolist() == [0, 3, 6]
    assert (triple.__name__, triple.__doc__) == ("triple", "Thrice.")
    report = triple.report()
    assert report.title.endswith("triple")
    assert [g.calls for g in report.graphs] == [1]


def test_two_functions_of_one_session_have_reports_of_their_own() -> None:
    session = dynamo_ext.optimize("eager")
    a, b = session(double), session(lambda x: x.sin())
    a(X)
    a(X)
    b(X)
    assert [g.calls for g in a.report().graphs] == [2]
    assert [g.calls for g in b.report().graphs] == [1]


@pytest.mark.parametrize(
    "function",
    [torch.sin, torch.nn.functional.relu, lambda x: x + 1, torch.nn.Linear(3, 1).forward],
)
def test_any_callable_can_be_wrapped(function: Any) -> None:
    fast = dynamo_ext.optimize("eager")(function)
    assert torch.equal(fast(X), function(X))
    assert fast.report().graphs


def test_arguments_and_keywords_pass_through() -> None:
    @dynamo_ext.optimize("eager")
    def f(x: torch.Tensor, /, *rest: int, scale: int = 1, **more: int) -> torch.Tensor:
        return x * scale + sum(rest) + sum(more.values())

    assert f(X, 1, 2, scale=3, other=4).tolist() == [7, 10, 13]


def test_a_module_stays_as_it_was() -> None:
    net = Net()
    before = set(dir(net)), set(vars(net)), set(vars(Net))
    forward = Net.forward
    fast = dynamo_ext.optimize("eager")(net)
    y = fast(X)
    assert torch.equal(y, net(X))
    assert (set(dir(net)), set(vars(net)), set(vars(Net))) == before
    assert Net.forward is forward
    assert fast.report().graphs
    assert net.training


def test_a_wrapped_module_is_a_module() -> None:
    net = Net()
    fast = dynamo_ext.optimize("eager")(net)
    assert isinstance(fast, torch.nn.Module)
    assert fast.fc is net.fc
    assert [id(p) for p in fast.parameters()] == [id(p) for p in net.parameters()]
    assert list(fast.state_dict()) == ["_orig_mod.fc.weight", "_orig_mod.fc.bias"]
    assert list(net.state_dict()) == ["fc.weight", "fc.bias"]
    fast(X)
    fast.eval()
    assert not net.training
    with torch.no_grad():
        net.fc.weight.zero_()
        net.fc.bias.fill_(2)
    assert fast(X).tolist() == [2, 2]


def test_run_reuses_and_never_compiles(compiles: list[str]) -> None:
    dynamo_ext.optimize("eager")(double)(X)
    assert len(compiles) == 1
    with dynamo_ext.run() as session:
        double(X)
        double(torch.ones(7))
    assert len(compiles) == 1
    report = session.report
    assert report.mode == "run"
    assert [g.calls for g in report.graphs] == [1]
    (found,) = report.recompiles
    assert (found.prevented, found.expected, found.actual) == (True, "3", "7")
    assert {f.outcome for f in report.frames} == {"reused", "eager"}


@pytest.mark.parametrize("make", [dynamo_ext.run, lambda: dynamo_ext.optimize("eager")])
def test_a_block_takes_its_callback_out_again(make: Any) -> None:
    installed = torch._C._dynamo.eval_frame.get_eval_frame_callback
    with make():
        double(X)
    assert installed() is None
    with make():
        pass
    assert installed() is None


def test_run_as_a_decorator_and_on_a_module(compiles: list[str]) -> None:
    net = Net()
    dynamo_ext.optimize("eager")(net)(X)
    first = len(compiles)
    reused = dynamo_ext.run()(net)
    assert torch.equal(reused(X), net(X))
    assert [g.calls for g in reused.report().graphs] == [1]
    fast = dynamo_ext.run()(double)
    fast(X)
    assert fast.report().graphs == ()
    assert len(compiles) == first


def test_sessions_nest() -> None:
    with dynamo_ext.optimize("eager") as outer:
        double(X)
        with dynamo_ext.optimize(lambda gm, _: gm.forward) as inner:
            double(X)
        double(X)
    assert [g.calls for g in outer.report.graphs] == [2]
    assert [g.calls for g in inner.report.graphs] == [1]


def test_run_inside_optimize() -> None:
    with dynamo_ext.optimize("eager") as outer:
        double(X)
        with dynamo_ext.run() as inner:
            double(torch.ones(9))
        double(X)
    assert [frame.name for frame in outer.report.frames].count("double") == 1
    assert [graph.calls for graph in outer.report.graphs] == [2]
    assert inner.report.recompiles[0].prevented


def test_a_session_can_be_entered_again() -> None:
    session = dynamo_ext.optimize("eager")
    for _ in range(3):
        with session:
            double(X)
    assert [g.calls for g in session.report.graphs] == [3]


def test_an_exception_leaves_everything_in_order(compiles: list[str]) -> None:
    def fails() -> None:
        double(X)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError), dynamo_ext.optimize("eager") as session:
        fails()
    assert session.report.graphs
    first = len(compiles)
    double(torch.ones(8))
    assert len(compiles) == first


def test_an_exception_of_the_function_is_its_own() -> None:
    @dynamo_ext.optimize("eager")
    def broken(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        return y @ torch.ones(7, 7)

    with pytest.raises(RuntimeError, match=r"size mismatch|must match|shapes"):
        broken(X)
    with pytest.raises(RuntimeError):
        broken(X)


def test_an_interrupt_is_in_the_report() -> None:
    with pytest.raises(KeyboardInterrupt), dynamo_ext.optimize("eager") as session:
        raise KeyboardInterrupt
    assert session.report.interrupted


def test_an_interrupt_of_a_function_is_in_its_report() -> None:
    @dynamo_ext.optimize("eager")
    def f(x: torch.Tensor) -> torch.Tensor:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        f(X)
    assert f.report().interrupted


def test_an_unknown_backend_is_refused_at_once() -> None:
    with pytest.raises(UnknownBackendError, match="onnxrt"):
        dynamo_ext.optimize("onxrt")


def test_bad_options_are_refused_at_once() -> None:
    with pytest.raises(OptionError, match="threads"):
        dynamo_ext.optimize("onnxrt", options={"thread": 2})
    with pytest.raises(OptionError, match="cannot be 'two'"):
        dynamo_ext.optimize("onnxrt", options={"threads": "two"})
    with pytest.raises(OptionError):
        dynamo_ext.optimize("eager", options={"anything": 1})


def test_what_is_no_backend_at_all_is_refused_at_once() -> None:
    for wrong in (3, None, X):
        with pytest.raises((UnknownBackendError, OptionError)):
            dynamo_ext.optimize(wrong)  # type: ignore[arg-type]


def test_strict_refuses_what_is_unavailable() -> None:
    with pytest.raises(BackendUnavailableError):
        dynamo_ext.optimize("tensorrt", strict=True)
    fast = dynamo_ext.optimize("tensorrt")(double)
    assert torch.equal(fast(X), X * 2)
    assert [f.stage for f in fast.report().fallbacks] == ["unavailable"]


def test_fullgraph_raises() -> None:
    @dynamo_ext.optimize("eager", fullgraph=True)
    def f(x: torch.Tensor) -> torch.Tensor:
        print("a break")  # noqa: T201
        return x + 1

    with pytest.raises(torch._dynamo.exc.Unsupported):
        f(X)


def test_fullgraph_leaves_the_users_own_errors_to_the_user() -> None:
    @dynamo_ext.optimize("eager", fullgraph=True)
    def f(x: torch.Tensor, names: dict[str, float]) -> torch.Tensor:
        return x * names["scale"]

    with pytest.raises(KeyError, match="scale"):
        f(X, {})
    assert torch.equal(f(X, {"scale": 2.0}), X * 2)


def test_dynamic_compiles_once_for_all_sizes(compiles: list[str]) -> None:
    fast = dynamo_ext.optimize("eager", dynamic=True)(double)
    for size in (3, 5, 9):
        fast(torch.ones(size))
    assert len(compiles) == 1
    static = dynamo_ext.optimize("eager", dynamic=False)(lambda x: x + 1)
    for size in (3, 5, 9):
        static(torch.ones(size))
    assert len(compiles) == 4


def test_the_same_backend_reuses_code(compiles: list[str]) -> None:
    dynamo_ext.optimize("eager")(double)(X)
    again = dynamo_ext.optimize("eager")(double)
    again(X)
    assert len(compiles) == 1
    assert [f.outcome for f in again.report().frames] == ["reused"]


def test_the_last_report_is_of_what_ran_last() -> None:
    a, b = (dynamo_ext.optimize("eager")(f) for f in (double, lambda x: x.cos()))
    a(X)
    b(X)
    assert dynamo_ext.last_report() == b.report()
    a(X)
    assert dynamo_ext.last_report().title == "double"


def test_before_anything_ran_there_is_no_report() -> None:
    code = (
        "import dynamo_ext, dynamo_ext.errors as e\n"
        "try: dynamo_ext.last_report()\n"
        "except e.NoReportError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Nothing has run" in done.stdout
    assert done.stderr == ""


@pytest.mark.usefixtures("older_objects_frozen")
def test_a_dead_function_leaves_nothing() -> None:
    class Big:
        pass

    def make() -> tuple[Any, weakref.ref[Big]]:
        big = Big()

        @dynamo_ext.optimize("eager")
        def f(x: torch.Tensor) -> torch.Tensor:
            return x + 1 if big else x

        f(X)
        return f, weakref.ref(big)

    f, ref = make()
    assert ref() is not None
    del f
    gc.collect()
    assert ref() is None


@pytest.mark.parametrize("kind", ["register_forward_hook", "register_forward_pre_hook"])
def test_a_hook_that_is_added_later_runs_and_one_that_is_removed_does_not(kind: str) -> None:
    seen = []
    net = Net()
    fast = dynamo_ext.optimize("aot_eager")(net)
    fast(X)
    handle = getattr(net.fc, kind)(lambda *_: seen.append(1))
    fast(X)
    assert seen == [1]
    (recompile,) = fast.report().recompiles
    assert "hooks" in recompile.guard
    handle.remove()
    fast(X)
    assert seen == [1]


@pytest.mark.parametrize("given", [Net(), torch.nn.Sequential(Net()), Net, double, 3, [double]])
def test_what_is_to_be_compiled_is_no_backend(given: Any) -> None:
    """A module and a function are callable, as a compiler is."""
    remedy = r'is not a backend\. .*optimize\("onnxrt"\)\(model\)'
    with pytest.raises(OptionError, match=remedy):
        dynamo_ext.optimize(given)
    with pytest.raises(OptionError, match=remedy):
        dynamo_ext.explain(double, (X,), backend=given)
    for backends in ({"row": given}, given if not isinstance(given, list) else [3]):
        with pytest.raises(OptionError, match=remedy):
            dynamo_ext.compare(double, (X,), backends)


def test_a_class_whose_instances_are_what_was_compiled_is_a_compiler() -> None:
    class Compiled:
        def __init__(self, graph: Any, _: Any) -> None:
            self.graph = graph

        def __call__(self, *inputs: Any) -> Any:
            return self.graph.forward(*inputs)

    fast = dynamo_ext.optimize(Compiled)(double)
    assert torch.equal(fast(X), X * 2)
    assert fast.report().fallbacks == ()


def test_a_class_of_modules_and_what_cannot_be_called_are_not_wrapped() -> None:
    with pytest.raises(OptionError, match=r"model = Net\("):
        dynamo_ext.optimize("eager")(Net)
    with pytest.raises((TypeError, dynamo_ext.errors.DynamoExtError)):
        dynamo_ext.optimize("eager")(3)
