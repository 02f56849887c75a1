"""What tracing does differently: it ends with the block, and recurrent layers are captured in it."""

from __future__ import annotations

import logging
import textwrap
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import nn

import dynamo_ext
from dynamo_ext.analysis.breaks import cause_of
from dynamo_ext.capture.torch_private.patches import registry
from tests.capture.live import live
from tests.needs import captures_less

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynamo_ext.records.report import Report


def test_patches_hold_for_the_block_only() -> None:
    def now() -> list[Any]:
        return [vars(owner).get(name) for owner, name, *_ in registry._patches]

    before = now()
    with registry.traced_our_way():
        inside = now()
        assert not set(map(id, inside)) & set(map(id, before))
        with registry.traced_our_way():
            pass
        assert now() == inside
    assert now() == before
    with pytest.raises(KeyError), registry.traced_our_way():
        raise KeyError
    assert now() == before
    assert not torch._dynamo.config.allow_rnn


def test_numpy_is_not_computed_while_tracing() -> None:
    array, number = np.ones(3), np.float64(2)
    x = torch.ones(3)

    def change() -> torch.Tensor:
        nonlocal array
        array += 1
        return x * 2

    def scale() -> tuple[Any, ...]:
        return x.sum() * number, number * 2, abs(number), number > 1, x * 2

    session = dynamo_ext.optimize("eager")
    assert torch.equal(session(change)(), x * 2)
    assert array.tolist() == [2, 2, 2]
    found, expected = session(scale)(), scale()
    assert [type(v) for v in found] == [type(v) for v in expected]
    assert found[0].dtype is expected[0].dtype
    assert found[1:4] == expected[1:4]


@captures_less("2.12", "captures nothing of a function that handles a missing attribute")
def test_a_missing_attribute_of_a_tensor_is_an_error_where_it_is_read() -> None:
    def unused(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y.nothing  # noqa: B018
        return y

    def handled(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        try:
            return y.nothing
        except AttributeError:
            return y + getattr(y, "nothing", 1) + hasattr(y, "nothing") + hasattr(y, "shape")

    with pytest.raises(AttributeError, match="'Tensor' object has no attribute 'nothing'"):
        dynamo_ext.optimize("eager")(unused)(torch.ones(3))
    assert len(run(handled, torch.ones(3)).graphs) == 1


def test_an_error_in_dynamos_own_code_is_no_missing_attribute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def reads(x: torch.Tensor) -> torch.Tensor:
        try:
            return x * x.scale
        except AttributeError:
            return x - 1

    def fails(value: Any) -> bool:
        return bool(value.of_dynamo)

    monkeypatch.setattr(torch._dynamo.variables.tensor, "object_has_getattribute", fails)
    x = torch.ones(3)
    x.scale = 5  # type: ignore[attr-defined]
    fast = dynamo_ext.optimize("eager")(reads)
    assert torch.equal(fast(x), x * 5)
    assert "of_dynamo" in fast.report().fallbacks[0].message


def test_two_threads_that_compile_at_once_leave_nothing_behind() -> None:
    def held() -> list[Any]:
        loggers = [logging.getLogger(name) for name in ("torch._dynamo", "torch._inductor")]
        return [
            warnings.showwarning,
            *(tuple(logger.filters) for logger in loggers),
            tuple(torch._dynamo.convert_frame._bytecode_hooks),
            torch._dynamo.config.trace_numpy,
            *(vars(owner).get(name) for owner, name, *_ in registry._patches),
        ]

    before = held()
    compiling = threading.Event()

    def slow(graph: torch.fx.GraphModule, _: Any) -> Any:
        compiling.set()
        time.sleep(0.5)
        return graph.forward

    def first() -> None:
        dynamo_ext.optimize(slow)(lambda x: x + 1)(torch.ones(2))

    def second() -> None:
        compiling.wait()
        dynamo_ext.optimize("eager")(lambda x: x + 2)(torch.ones(2))

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda compiles: compiles(), (first, second)))
    assert held() == before


def test_a_users_own_compile_is_untouched() -> None:
    """Under torch.compile a global integer is a constant still."""
    namespace: dict[str, Any] = {"n": 3, "torch": torch}
    exec("def f(x): return x + n", namespace)
    fast = torch.compile(namespace["f"], backend="eager")
    assert fast(torch.ones(1)).item() == 4
    namespace["n"] = 4
    assert fast(torch.ones(1)).item() == 5


def run(function: Callable[..., Any], *args: Any, backend: str = "eager") -> Report:
    """Call three times as eager does, and say what was captured."""
    fast = dynamo_ext.optimize(backend)(function)
    with torch.no_grad():
        expected = function(*args)
        for _ in range(3):
            torch.testing.assert_close(fast(*args), expected)
    return fast.report()


class Tagger(nn.Module):
    def __init__(self, kind: Any = nn.LSTM, **options: Any) -> None:
        super().__init__()
        self.words = nn.Embedding(20, 4)
        self.layers = kind(4, 5, batch_first=True, **options)

    def forward(self, words: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        out, state = self.layers(self.words(words))
        return out * 2, state[0]


WORDS = torch.randint(20, (2, 7))


@pytest.mark.parametrize(
    "options", [{}, {"num_layers": 2, "bidirectional": True}, {"bias": False}], ids=str
)
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor", "ts", "onnxrt", "openvino"])
def test_an_lstm_is_captured_in_inference(backend: str, options: dict[str, Any]) -> None:
    if backend in {"onnxrt", "openvino"}:
        pytest.importorskip("onnxruntime" if backend == "onnxrt" else "openvino")
    torch.manual_seed(0)
    report = run(Tagger(**options).eval(), WORDS, backend=backend)
    assert len(report.graphs) == 1
    assert not [f for f in report.fallbacks if f.stage != "unsupported"]
    # One operation a layer and direction, however many steps there are.
    calls = [o for o in report.graphs[0].operations if o.opcode.startswith("call")]
    assert len(calls) < 40


class Recurrent(nn.Module):
    def __init__(self, layers: nn.RNNBase) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        out, state = self.layers(x)
        return out * 2, state[0] + 1


IN_TORCHS_KERNELS: dict[str, Any] = {
    "gru": lambda: nn.GRU(4, 5, num_layers=2, bidirectional=True),
    "rnn": lambda: nn.RNN(4, 5),
    "projected": lambda: nn.LSTM(4, 5, proj_size=2),
    "double": lambda: nn.LSTM(4, 5, bidirectional=True).double(),
}


@pytest.mark.filterwarnings("ignore:LSTM with projections")  # eager says so, too
@pytest.mark.parametrize("name", IN_TORCHS_KERNELS)
@pytest.mark.parametrize("backend", ["aot_eager", "inductor", "ts"])
def test_other_recurrent_layers_run_in_torchs_kernels(backend: str, name: str) -> None:
    torch.manual_seed(0)
    model = Recurrent(IN_TORCHS_KERNELS[name]()).eval()
    x = torch.randn(7, 3, 4, dtype=next(model.parameters()).dtype)
    report = run(model, x, backend=backend)
    assert not [f for f in report.fallbacks if f.stage != "unsupported"]
    # What comes after it is captured.
    (graph,) = report.graphs
    assert graph.operation_count > 1
    (found,) = report.breaks
    assert cause_of(found).harmless


@pytest.mark.parametrize("backend", ["aot_eager", "onnxrt", "inductor"])
def test_as_many_steps_as_come_are_one_graph(backend: str) -> None:
    if backend == "onnxrt":
        pytest.importorskip("onnxruntime")
    model = Tagger().eval()
    fast = dynamo_ext.optimize(backend, dynamic=True)(model)
    with torch.no_grad():
        for steps in (3, 7, 11):
            words = torch.randint(20, (2, steps))
            torch.testing.assert_close(fast(words), model(words))
    assert len(fast.report().graphs) == 1


def test_what_would_be_unrolled_is_left_to_eager() -> None:
    for model in (Tagger().eval(), Tagger(nn.GRU).eval()):
        fast = dynamo_ext.optimize("aot_eager")(model)
        torch.testing.assert_close(fast(WORDS), model(WORDS))
        assert "recurrent" in fast.report().breaks[0].reason
    dropping = nn.GRU(4, 5, num_layers=2, dropout=0.5)
    fast = dynamo_ext.optimize("aot_eager")(dropping)
    x = torch.randn(7, 2, 4)
    with torch.no_grad():
        torch.manual_seed(0)
        expected = dropping(x)
        torch.manual_seed(0)
        torch.testing.assert_close(fast(x), expected)
    assert "recurrent" in fast.report().breaks[0].reason


def test_inference_within_training() -> None:
    lstm = nn.LSTM(4, 5)

    def both(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.no_grad():
            known, _ = lstm(x)
        return known, (x * 2).sum()

    fast = dynamo_ext.optimize("aot_eager")(both)
    x = torch.randn(7, 2, 4, requires_grad=True)
    for _ in range(2):
        known, total = fast(x)
        torch.testing.assert_close(known, both(x)[0])
        assert not known.requires_grad
        (slope,) = torch.autograd.grad(total, x)
        torch.testing.assert_close(slope, torch.full_like(x, 2))


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_packed_sequences_are_right(kind: Any) -> None:
    layers = kind(4, 5, batch_first=True).eval()

    def packed(x: torch.Tensor) -> torch.Tensor:
        lengths = torch.tensor([7, 4])
        some = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
        out, _ = layers(some)
        padded, _ = nn.utils.rnn.pad_packed_sequence(out, batch_first=True)
        return padded * 2

    run(packed, torch.randn(2, 7, 4))
    run(packed, torch.randn(2, 7, 4), backend="aot_eager")


CAUSAL = nn.Transformer.generate_square_subsequent_mask(5)
OTHER = CAUSAL.flip(0)


@pytest.mark.parametrize("training", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("mask", [CAUSAL, OTHER, CAUSAL != 0], ids=["causal", "other", "booleans"])
def test_a_transformer_with_a_mask_is_one_graph(mask: torch.Tensor, training: bool) -> None:
    torch.manual_seed(0)
    layer = nn.TransformerDecoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
    encoder_layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
    encoder = nn.TransformerEncoder(encoder_layer, 2, enable_nested_tensor=False)
    model = nn.ModuleList([encoder, nn.TransformerDecoder(layer, 2)]).train(training)

    def step(x: torch.Tensor) -> torch.Tensor:
        seen = model[0](x, mask)
        return model[1](x, seen, tgt_mask=mask)

    fast = dynamo_ext.optimize("aot_eager")(step)
    x = torch.randn(2, 5, 16)
    with torch.set_grad_enabled(training):
        torch.testing.assert_close(fast(x), step(x))
        torch.testing.assert_close(fast(x), step(x))
    report = fast.report()
    assert len(report.graphs) == 1
    assert not report.breaks


class Hinted(nn.TransformerEncoderLayer):
    def forward(self, src: torch.Tensor, *_: Any, is_causal: bool = False, **__: Any) -> Any:
        return src * 2 if is_causal else src


def test_a_layer_of_ones_own_is_told_of_its_mask() -> None:
    encoder = nn.TransformerEncoder(Hinted(16, 4, 32), 1, enable_nested_tensor=False).eval()
    run(encoder, torch.randn(5, 2, 16), CAUSAL)


class Derived(nn.TransformerEncoderLayer):
    pass


def test_a_mask_that_ends_capture_is_told_with_its_remedy() -> None:
    encoder = nn.TransformerEncoder(Derived(16, 4, 32), 1, enable_nested_tensor=False).eval()
    report = run(encoder, torch.randn(5, 2, 16), CAUSAL)
    assert [frame.name for frame in report.frames if frame.graphs] == ["forward"], "its layer's"
    (cut,) = report.breaks
    cause = cause_of(cut)
    assert cause.because.startswith("torch reads its mask")
    assert "is_causal=True" in cause.step


def test_whoever_asks_about_a_mask_is_told() -> None:
    detect = nn.modules.transformer._detect_is_causal_mask

    def asks(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if detect(CAUSAL, None, 5) else x

    run(asks, torch.ones(3))


def test_a_mask_that_is_learned_is_read() -> None:
    layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
    mask = nn.Parameter(CAUSAL.clone())
    dynamo_ext.optimize("aot_eager")(encoder)(torch.randn(2, 5, 16), mask).sum().backward()
    assert mask.grad is None


def test_a_transformer_that_is_told_of_its_mask_does_as_told() -> None:
    layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=0.0, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
    x = torch.randn(2, 5, 16)
    for is_causal in (True, False):
        report = run(lambda x, told=is_causal: encoder(x, CAUSAL, is_causal=told), x)
        assert len(report.graphs) == 1


@pytest.mark.parametrize(
    "text",
    [
        lambda n: f"{n}",
        lambda n: f"{n:03}|{n:5}|{n!s:5}|{n!r:>5}|{n / 7:.2f}",
        lambda n: f"{n!a}" + f"{n:>4}",
    ],
)
def test_a_symbolic_number_is_formatted_as_the_number(text: Callable[[int], str]) -> None:
    def told(x: torch.Tensor, seen: int) -> tuple[torch.Tensor, str]:
        return x * seen, text(seen)

    fast = dynamo_ext.optimize("eager")(told)
    for seen in (1, 12, 105, 7):
        assert fast(torch.ones(2), seen)[1] == text(seen)
    report = fast.report()
    assert not report.fallbacks
    assert len(report.graphs) == 2


@pytest.mark.parametrize("value", [7, 2.5, "a", True, torch.tensor(2.5)], ids=str)
def test_format_formats(value: Any) -> None:
    def told(x: torch.Tensor, value: Any) -> tuple[Any, ...]:
        return x + len(x), format(value, ">9"), format(value), format(len(x), "03")

    fast = dynamo_ext.optimize("eager")(told)
    for size in (2, 3, 4):
        assert fast(torch.ones(size), value)[1:] == told(torch.ones(size), value)[1:]
    assert not fast.report().fallbacks


def test_format_formats_where_it_is_passed_on() -> None:
    def told(x: torch.Tensor) -> list[str]:
        return list(map(format, [len(x), 5], ["03", "04"]))

    fast = dynamo_ext.optimize("eager")(told)
    for size in (2, 3, 4):
        assert fast(torch.ones(size)) == told(torch.ones(size))


def test_a_name_that_the_cell_has_just_bound_is_known() -> None:
    with live("x = torch.ones(2)", "def f():\n    return a.sin()") as cells:
        report = cells.report("a = x * 2\nb = a + f()\nc = b + 1")
    assert (len(report.graphs), report.breaks) == (1, ())


def test_a_name_that_was_missing_is_read_once_it_is_defined() -> None:
    f = "def f(v):\n    try:\n        return v + later\n    except NameError:\n        return -v"
    with live("x = torch.ones(2)", f) as cells:
        cells.report("y = f(x)")
        assert cells.names["y"].tolist() == [-1, -1]
        cells.well("later = 5")
        cells.report("y = f(x)")
        assert cells.names["y"].tolist() == [6, 6]


def test_a_name_that_was_just_bound_is_read_through_its_module() -> None:
    f = "def f(v):\n    global q\n    q = v * 3\n    return __main__.q + 1"
    with live("import __main__\nx = torch.ones(2)\nw = q = 0", f) as cells:
        cells.report("w = x * 2\ny = __main__.w + 1\nz = f(x)")
        assert [cells.names[name].tolist() for name in "yz"] == [[3.0, 3.0], [4.0, 4.0]]


def test_a_finaliser_runs_on_the_users_objects_alone() -> None:
    setup = """
    log = []
    class D:
        def __del__(self):
            log.append(hasattr(self, "t"))
    def make(v):
        d = D.__new__(D)
        d.t = v * 2
        return d.t + 1
    """
    with live("x = torch.ones(2)", textwrap.dedent(setup)) as cells:
        cells.report("y = make(x)")
        assert cells.names["log"] == [True]


def test_a_function_that_takes_no_tensor_is_captured_all_the_same() -> None:
    holder = """
    class Holder:
        def __init__(self):
            self.model = model
        def step(self):
            y = self.model(x)
            print("half")
            return y * 2
    holder = Holder()
    """
    works = "def works():\n    y = model(x)\n    print('half')\n    return y * 2"
    setup = "x = torch.ones(2, 3)\nmodel = torch.nn.Sequential(torch.nn.Linear(3, 3))"
    with live(setup, textwrap.dedent(holder), works) as cells:
        for call in ("works()", "holder.step()"):
            report = cells.report(call)
            assert [len(graph.operations) > 1 for graph in report.graphs] == [True, True]


def test_a_break_in_a_generator_does_not_walk_through_its_globals() -> None:
    """A name that holds itself would have no end; among the builtins, Dynamo's own names do."""
    namespace: dict[str, Any] = {"torch": torch}
    exec("def each(x):\n    for n in range(3):\n        yield x * n", namespace)
    namespace["itself"] = {}
    namespace["itself"]["itself"] = namespace["itself"]

    @torch._dynamo.disable
    def total(found: Any) -> Any:
        return sum(found)

    def totalled(x: torch.Tensor) -> Any:
        return total(namespace["each"](x))

    fast = dynamo_ext.optimize("eager")(totalled)
    assert fast(torch.ones(2)).tolist() == [3.0, 3.0]
    assert not [found.exception for found in fast.report().fallbacks]


@torch._dynamo.forbid_in_graph
class _Doubling:
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2

    @torch._dynamo.forbid_in_graph
    def double(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


_DOUBLING = _Doubling()


@pytest.mark.parametrize(
    "forbidden",
    [
        lambda x: _Doubling()(x) + 1,
        lambda x: _DOUBLING(x) + 1,
        lambda x: _DOUBLING.double(x) + 1,
        lambda x: torch._dynamo.mark_dynamic(x, 0) or x * 2 + 1,
    ],
    ids=["class", "object", "method", "function"],
)
def test_what_torch_forbids_in_a_graph_ends_it_and_not_the_capture(
    forbidden: Callable[[torch.Tensor], torch.Tensor],
) -> None:
    fast = dynamo_ext.optimize("eager")(forbidden)
    x = torch.ones(3)
    assert torch.equal(fast(x), x * 2 + 1)
    report = fast.report()
    assert not report.fallbacks
    assert {found.kind for found in report.breaks} == {"about_compiling"}
