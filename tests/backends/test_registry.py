"""Names, options, identity, and what is said of a backend that cannot run."""

from __future__ import annotations

import gc
import importlib
import pickle
import sys
import types
import weakref
from typing import Any

import pytest
import torch

import dynamo_ext
from dynamo_ext import errors
from dynamo_ext.backends import entrypoints, registry, user_backends
from dynamo_ext.backends.base import Backend, Support
from dynamo_ext.backends.options import resolve
from dynamo_ext.records.common import Availability, OptionSpec

X = torch.randn(3)


def fn(x: torch.Tensor) -> torch.Tensor:
    return x.sin() + 1


def test_names_start_with_ours() -> None:
    names = registry.names()
    assert names[:3] == ["eager", "inductor", "onnxrt"]
    ours = {"aot_eager", "ts", "ofi", "cudagraphs", "tensorrt", "nvfuser"}
    assert ours <= set(names[: len(registry.OURS)])
    assert len(names) == len(set(names))
    assert not [name for name in names if name.startswith("dx_")]


def test_describe_is_honest() -> None:
    rows = {info.name: info for info in registry.describe()}
    assert rows["eager"].availability.available
    assert rows["eager"].origin == "dynamo_ext"
    assert rows["openxla"].origin == "torch"
    for name in ("openxla", *(() if torch.cuda.is_available() else ("cudagraphs",))):
        assert not rows[name].availability.available
        assert rows[name].availability.reason
        assert rows[name].availability.remedy
    (one,) = registry.describe("onnxrt")
    assert {spec.name for spec in one.options} >= {"freeze", "verify", "threads"}


def test_a_probe_that_raises_is_an_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> Any:
        message = "libfoo.so"
        raise OSError(message)

    monkeypatch.setattr(registry.get("onnxrt"), "probe", broken, raising=False)
    (info,) = registry.describe("onnxrt")
    assert not info.availability.available
    assert "libfoo.so" in info.availability.reason


def test_the_same_request_gives_the_same_object() -> None:
    assert registry.compiler("eager") is registry.compiler("eager", {})
    a = registry.compiler("onnxrt", {"threads": "2"})
    assert a is registry.compiler("onnxrt", {"threads": 2, "freeze": "yes"})
    assert a is not registry.compiler("onnxrt")
    assert a.name == "onnxrt"
    assert registry.compiler(a) is a
    assert pickle.loads(pickle.dumps(a)) is a
    assert registry.compiler("dx_onnxrt") is registry.compiler("onnxrt")


@pytest.mark.usefixtures("older_objects_frozen")
def test_a_callable_is_wrapped_once_and_let_go(harness: Any) -> None:
    calls = []

    def mine(graph: Any, inputs: Any) -> Any:
        calls.append(len(inputs))
        return graph.forward

    first = registry.compiler(mine)
    assert first is registry.compiler(mine)
    assert first.name == "mine"
    torch.testing.assert_close(harness.compile(fn, first)(X), fn(X))
    assert calls == [1]
    gone = weakref.ref(first)
    torch._dynamo.reset()
    del first, mine
    gc.collect()
    assert gone() is None


def test_unknown_names_suggest_near_ones() -> None:
    with pytest.raises(errors.UnknownBackendError, match="onnxrt"):
        registry.compiler("onxrt")
    with pytest.raises(errors.UnknownBackendError, match="There are: eager"):
        registry.get("zzzzzzzz")


def test_bad_options_name_good_ones() -> None:
    with pytest.raises(errors.OptionError, match="freeze"):
        registry.compiler("onnxrt", {"freze": "1"})
    with pytest.raises(errors.OptionError, match="true or false"):
        registry.compiler("onnxrt", {"freeze": "maybe"})
    with pytest.raises(errors.OptionError, match="reduce-overhead"):
        registry.compiler("inductor", {"mode": "most"})
    with pytest.raises(errors.OptionError, match="no options"):
        resolve("mine", (), {"a": "b"})


@pytest.mark.parametrize(
    ("default", "given", "expected"),
    [
        (True, "no", False),
        (False, "1", True),
        (1, " 7 ", 7),
        (1.5, "2", 2.0),
        ("a", "b", "b"),
        (2, 3, 3),
        (0.5, 1, 1.0),
    ],
)
def test_text_takes_the_type_of_the_default(default: Any, given: Any, expected: Any) -> None:
    value = resolve("b", [OptionSpec("o", default, "")], {"o": given})["o"]
    assert value == expected
    assert type(value) is type(default)


@pytest.mark.parametrize(("default", "given"), [(1, "1.5"), (1, True), (1.0, "x"), ("a", 1)])
def test_values_that_do_not_fit(default: Any, given: Any) -> None:
    with pytest.raises(errors.OptionError, match="cannot be"):
        resolve("b", [OptionSpec("o", default, "")], {"o": given})


@pytest.mark.parametrize(
    ("backend", "given", "words"),
    [
        ("onnxrt", {"threads": -1}, "'threads' cannot be -1. Give it a number from 0 to 1024"),
        ("openvino", {"threads": 10**9}, "'threads' cannot be 1000000000. .*from 0 to 1024"),
        ("onnxrt", {"threads": "-2"}, "cannot be '-2'"),
        ("onnxrt", {"min_partition": -3}, "'min_partition' cannot be -3. Give it 0 or more"),
        ("tvm_meta_schedule", {"trials": -1}, "'trials' cannot be -1. Give it 0 or more"),
        ("tvm_meta_schedule", {"budget": -0.5}, "'budget' cannot be -0.5. Give it 0 or more"),
        ("auto", {"budget": "nan"}, "'budget' cannot be 'nan'"),
        ("auto", {"budget": "inf"}, "'budget' cannot be 'inf'. Give it 0 or more, and finite"),
        ("auto", {"budget": 10**400}, "'budget' cannot be "),
        ("onnxrt", "verify", "onnxrt's options cannot be 'verify'. Give a mapping"),
        ("onnxrt", ["verify"], "cannot be "),
        ("onnxrt", {1: 2}, "onnxrt has no option 1. Give its name as text"),
        (print, {None: 2}, "no option None"),
    ],
)
def test_absurd_options_are_refused(backend: Any, given: Any, words: str) -> None:
    with pytest.raises(errors.OptionError, match=words) as raised:
        registry.compiler(backend, given)
    assert "\n" not in str(raised.value)


def test_an_option_of_ones_own_has_the_bounds_it_states() -> None:
    shift = OptionSpec("shift", 0, "")
    level = OptionSpec("level", 1.0, "", least=-1, most=2.5)
    high = OptionSpec("high", 1, "", most=3)
    assert resolve("b", [shift], {"shift": -5}) == {"shift": -5}
    assert resolve("b", [level], {"level": -1}) == {"level": -1.0}
    with pytest.raises(errors.OptionError, match=r"a number from -1 to 2\.5"):
        resolve("b", [level], {"level": 3})
    with pytest.raises(errors.OptionError, match="3 or less"):
        resolve("b", [high], {"high": 4})


def test_an_unavailable_backend(harness: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Availability(available=False, reason="no chip.", remedy="Buy one.")
    monkeypatch.setattr(registry.get("onnxrt"), "probe", lambda: answer, raising=False)
    with pytest.raises(
        errors.BackendUnavailableError, match=r"no chip\. Use inductor, .* Else: Buy one\."
    ):
        registry.compiler("onnxrt", strict=True)
    compiler = registry.compiler("onnxrt")
    torch.testing.assert_close(harness.compile(fn, compiler)(X), fn(X))
    (fallback,) = harness.journal.fallbacks.values()
    assert (fallback.stage, fallback.scope) == ("unavailable", "graph")
    assert "no chip." in fallback.message
    assert fallback.remedy == "Use inductor, which works here. Else: Buy one."
    monkeypatch.undo()
    assert registry.compiler("onnxrt") is not compiler


def test_torchs_own_broken_backend_is_a_fallback(harness: Any) -> None:
    torch.testing.assert_close(harness.compile(fn, registry.compiler("openxla"))(X), fn(X))
    assert harness.stages == ["unavailable"]


class Own(dynamo_ext.Backend):
    """The least that a backend must say."""

    name = "own"

    def __init__(self) -> None:
        self.lowered = 0

    def supports(self, node: torch.fx.Node) -> dynamo_ext.Support:
        return dynamo_ext.Support(supported="sin" in str(node.target), reason="It only knows sin.")

    def lower(self, graph: Any, example_inputs: Any, options: Any) -> Any:
        self.lowered += 1
        return graph.forward


@pytest.fixture
def own(monkeypatch: pytest.MonkeyPatch) -> Own:
    monkeypatch.setattr(user_backends, "registered", {})
    return Own()


def waves(x: torch.Tensor) -> torch.Tensor:
    return x.sin().sin().sin() + 1


def test_a_backend_object_needs_no_name_in_the_registry(harness: Any, own: Own) -> None:
    compiler = registry.compiler(own)
    assert compiler is registry.compiler(own, {"min_partition": "3"})
    assert compiler is not registry.compiler(Own())
    assert "own" not in registry.names()
    torch.testing.assert_close(harness.compile(waves, compiler)(X), waves(X))
    assert harness.engines == {"own": 3, "eager": 1}
    assert own.lowered == 1


@pytest.mark.usefixtures("older_objects_frozen")
def test_a_backend_object_is_let_go(own: Own) -> None:
    compiler = registry.compiler(Own())
    gone = weakref.ref(compiler.backend)
    del compiler
    gc.collect()
    assert gone() is None


def test_one_of_ours_may_be_passed_itself() -> None:
    assert registry.compiler(registry.get("ts")) is registry.compiler("ts")


def test_a_registered_backend_has_a_name(own: Own) -> None:
    assert dynamo_ext.register_backend(own) is own
    assert registry.get("own") is registry.get("dx_own") is own
    assert registry.names().count("own") == 1
    (info,) = registry.describe("own")
    assert (info.origin, info.availability.available) == ("yours", True)
    assert registry.compiler("own") is registry.compiler(own)
    with pytest.raises(errors.UnknownBackendError, match="own"):
        registry.get("owm")


def test_a_registered_backend_serves_plain_torch_compile(own: Own) -> None:
    dynamo_ext.register_backend(own)
    compiled = torch.compile(waves, backend="dx_own")
    with pytest.warns(errors.FallbackWarning, match="It only knows sin"):
        torch.testing.assert_close(compiled(X), waves(X))
    assert own.lowered == 1


def test_registering_again_replaces(own: Own) -> None:
    dynamo_ext.register_backend(own)
    before = registry.compiler("own")
    second = dynamo_ext.register_backend(Own())
    assert registry.get("own") is second
    assert registry.compiler("own") is not before
    with pytest.warns(errors.FallbackWarning):
        torch.compile(waves, backend="dx_own")(X)
    assert (own.lowered, second.lowered) == (0, 1)


def test_what_is_no_backend_is_refused(own: Own) -> None:
    with pytest.raises(errors.InvalidBackendError, match="no supports"):
        dynamo_ext.register_backend(fn)  # type: ignore[arg-type]
    with pytest.raises(errors.InvalidBackendError, match=r"an instance: Own\(\)"):
        registry.compiler(Own)

    class Half:
        name = "half"

        def supports(self, node: Any) -> Any: ...
        def lower(self, *args: Any) -> Any: ...

    with pytest.raises(errors.InvalidBackendError, match="no summary and no extra"):
        registry.compiler(Half())
    with pytest.raises(TypeError, match="abstract"):
        type("Less", (dynamo_ext.Backend,), {"name": "less"})()


@pytest.mark.parametrize("name", ["eager", "onnxrt", "dx_mine", "", "two words", None])
def test_names_that_a_backend_cannot_have(own: Own, name: Any) -> None:
    own.name = name
    with pytest.raises(errors.InvalidBackendError, match=r"name|called"):
        registry.compiler(own)


def test_torchs_names_cannot_be_registered(own: Own) -> None:
    own.name = "aot_eager_decomp_partition"
    with pytest.raises(errors.InvalidBackendError, match="taken"):
        dynamo_ext.register_backend(own)


def test_an_unavailable_backend_of_the_users(harness: Any, own: Own) -> None:
    own.probe = lambda: Availability(available=False, reason="no chip.")  # type: ignore[method-assign]
    with pytest.raises(errors.BackendUnavailableError, match="no chip"):
        registry.compiler(own, strict=True)
    torch.testing.assert_close(harness.compile(waves, registry.compiler(own))(X), waves(X))
    assert harness.stages == ["unavailable"]


def test_an_engine_is_a_line_in_the_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    class Toy(Backend):
        name = "toy"
        races = True
        packages = ("a_package_that_is_not_there",)
        extra = "toy"

        def supports(self, node: Any) -> Support:
            return Support(supported=True)

        def lower(self, graph: Any, example_inputs: Any, options: Any) -> Any:
            return graph.forward

    module = types.SimpleNamespace(BACKEND=Toy())
    monkeypatch.setitem(sys.modules, "toy_engine", module)
    monkeypatch.setitem(registry.OURS, "toy", "toy_engine:BACKEND")
    monkeypatch.delitem(sys.modules, "benchmarks.backends", raising=False)
    assert "toy" in registry.names()
    assert "toy" in registry.racing()
    assert "toy" in importlib.import_module("benchmarks.backends").BACKENDS
    assert entrypoints.toy.__name__ == "toy"
    found = registry.probe(registry.get("toy"))
    assert found.reason == "a_package_that_is_not_there cannot be imported."
    assert found.remedy == 'pip install "dynamo-ext[toy]"'
    Toy.extra = ""
    assert registry.probe(Toy()).remedy == "Install what has a_package_that_is_not_there."
    with pytest.raises(AttributeError, match="no attribute 'toys'"):
        _ = entrypoints.toys
