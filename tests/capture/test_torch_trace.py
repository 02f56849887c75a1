"""What tracing does differently: it ends with the block, and recurrent layers are captured in it."""

from __future__ import annotations

import textwrap
import warnings
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import dynamo_ext
from dynamo_ext.advice import advise
from dynamo_ext.capture import torch_trace
from tests.capture.live import live

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynamo_ext.records import Report


def test_patches_hold_for_the_block_only() -> None:
    def now() -> list[Any]:
        return [getattr(owner, name) for owner, name, *_ in torch_trace._PATCHES]

    before = now()
    with torch_trace.traced_our_way():
        inside = now()
        assert not set(map(id, inside)) & set(map(id, before))
        with torch_trace.traced_our_way():
            pass
        assert now() == inside
    assert now() == before
    with pytest.raises(KeyError), torch_trace.traced_our_way():
        raise KeyError
    assert now() == before
    assert not torch._dynamo.config.allow_rnn


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


WHOLE: dict[str, Any] = {
    "gru": lambda: nn.GRU(4, 5, num_layers=2, bidirectional=True),
    "gru, batch first": lambda: nn.GRU(4, 5, batch_first=True, bias=False),
    "rnn": lambda: nn.RNN(4, 5),
    "relu": lambda: nn.RNN(4, 5, nonlinearity="relu"),
    "projected": lambda: nn.LSTM(4, 5, proj_size=2),
    "double": lambda: nn.LSTM(4, 5, bidirectional=True).double(),
}


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor", "ts", "ofi"])
def test_recurrent_layers_are_captured_in_inference(backend: str, name: str) -> None:
    torch.manual_seed(0)
    model = Recurrent(WHOLE[name]()).eval()
    x = torch.randn(7, 3, 4, dtype=next(model.parameters()).dtype)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "LSTM with projections")  # eager says so, too
        report = run(model, x, backend=backend)
    assert len(report.graphs) == 1
    assert not [f for f in report.fallbacks if f.stage != "unsupported"]
    names = [o.target for o in report.graphs[0].operations if "dynamo_ext" in o.target]
    assert len(names) == 1


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("backend", ["aot_eager", "onnxrt", "inductor"])
def test_as_many_steps_as_come_are_one_graph(backend: str, kind: Any) -> None:
    if backend == "onnxrt":
        pytest.importorskip("onnxruntime")
    model = Tagger(kind).eval()
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
        assert "LSTM" in fast.report().breaks[0].reason
    dropping = nn.GRU(4, 5, num_layers=2, dropout=0.5)
    fast = dynamo_ext.optimize("aot_eager")(dropping)
    x = torch.randn(7, 2, 4)
    with torch.no_grad():
        torch.manual_seed(0)
        expected = dropping(x)
        torch.manual_seed(0)
        torch.testing.assert_close(fast(x), expected)
    assert "LSTM" in fast.report().breaks[0].reason


def test_inference_within_training() -> None:
    gru = nn.GRU(4, 5)

    def both(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.no_grad():
            known, _ = gru(x)
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
    assert not report.graphs
    (step,) = advise(report)
    assert step.problem.startswith("Nothing is captured because torch reads its mask")
    assert "is_causal=True" in step.step


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


def test_a_symbolic_number_is_formatted_as_the_number() -> None:
    def told(x: torch.Tensor, seen: int) -> tuple[torch.Tensor, str]:
        seen = seen + len(x)
        return x * seen, f"{seen:03}|{seen:5}|{seen!s:5}|{seen}|{seen / 7:.2f}"

    fast = dynamo_ext.optimize("eager")(told)
    for seen in (1, 12, 105):
        assert fast(torch.ones(2), seen)[1] == told(torch.ones(2), seen)[1]
    report = fast.report()
    assert not report.fallbacks


@pytest.mark.parametrize("value", [7, 2.5, "a", True, torch.tensor(2.5)], ids=str)
def test_format_formats(value: Any) -> None:
    def told(x: torch.Tensor, value: Any) -> tuple[Any, ...]:
        return x + len(x), format(value, ">9"), format(value), format(len(x), "03")

    fast = dynamo_ext.optimize("eager")(told)
    for size in (2, 3, 4):
        assert fast(torch.ones(size), value)[1:] == told(torch.ones(size), value)[1:]
    assert not fast.report().fallbacks


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
