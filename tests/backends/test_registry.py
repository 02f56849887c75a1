"""Names, options, identity, and what is said of a backend that cannot run."""

from __future__ import annotations

import gc
import pickle
import subprocess
import sys
import weakref
from typing import Any

import pytest
import torch

from dynamo_ext.backends import registry
from dynamo_ext.backends.options import resolve
from dynamo_ext.errors import BackendUnavailableError, OptionError, UnknownBackendError
from dynamo_ext.records import Availability, OptionSpec

X = torch.randn(3)


def fn(x: torch.Tensor) -> torch.Tensor:
    return x.sin() + 1


def test_importing_it_imports_neither_torch_nor_an_engine() -> None:
    code = (
        "import sys, dynamo_ext.backends.registry, dynamo_ext.backends.entrypoints; "
        "print([m for m in ('torch', 'onnxruntime', 'onnx', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_names_start_with_ours() -> None:
    names = registry.names()
    assert names[:3] == ["eager", "inductor", "onnxrt"]
    ours = {"aot_eager", "ts", "ofi", "nnc", "cudagraphs", "tensorrt", "nvfuser"}
    assert ours <= set(names[: len(registry._OURS)])
    assert len(names) == len(set(names))
    assert not [name for name in names if name.startswith("dx_")]


def test_describe_is_honest() -> None:
    rows = {info.name: info for info in registry.describe()}
    assert rows["eager"].availability.available
    assert rows["eager"].origin == "dynamo_ext"
    assert rows["tvm"].origin == "torch"
    for name in ("tvm", "openxla", *(() if torch.cuda.is_available() else ("cudagraphs",))):
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
    with pytest.raises(UnknownBackendError, match="onnxrt"):
        registry.compiler("onxrt")
    with pytest.raises(UnknownBackendError, match="There are: eager"):
        registry.get("zzzzzzzz")


def test_bad_options_name_good_ones() -> None:
    with pytest.raises(OptionError, match="freeze"):
        registry.compiler("onnxrt", {"freze": "1"})
    with pytest.raises(OptionError, match="true or false"):
        registry.compiler("onnxrt", {"freeze": "maybe"})
    with pytest.raises(OptionError, match="basic"):
        registry.compiler("onnxrt", {"optimization": "most"})
    with pytest.raises(OptionError, match="no options"):
        registry.compiler("eager", {"a": "b"})


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
    with pytest.raises(OptionError, match="cannot be"):
        resolve("b", [OptionSpec("o", default, "")], {"o": given})


def test_an_unavailable_backend(harness: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = Availability(available=False, reason="no chip.", remedy="Buy one.")
    monkeypatch.setattr(registry.get("onnxrt"), "probe", lambda: answer, raising=False)
    with pytest.raises(BackendUnavailableError, match=r"no chip\. Buy one\."):
        registry.compiler("onnxrt", strict=True)
    compiler = registry.compiler("onnxrt")
    torch.testing.assert_close(harness.compile(fn, compiler)(X), fn(X))
    (fallback,) = harness.journal.fallbacks.values()
    assert (fallback.stage, fallback.scope) == ("unavailable", "graph")
    assert "no chip." in fallback.message
    assert fallback.remedy == "Buy one."
    monkeypatch.undo()
    assert registry.compiler("onnxrt") is not compiler


def test_torchs_own_broken_backend_is_a_fallback(harness: Any) -> None:
    torch.testing.assert_close(harness.compile(fn, registry.compiler("tvm"))(X), fn(X))
    assert harness.stages == ["unavailable"]
