"""XLA against eager: traced once, and traced at every call."""

from __future__ import annotations

import os
from typing import Any

import pytest
import torch
from torch import nn

from dynamo_ext.backends import registry
from dynamo_ext.backends.engines.xla import backend as xla
from dynamo_ext.backends.engines.xla import convert, session
from dynamo_ext.backends.engines.xla.ops import table as xla_lowerings
from tests.backends import engine_zoo
from tests.backends.own_process import silent
from tests.needs import needs

needs("jax")

Harness = Any
F = nn.functional


def compiler(name: str = "xla", **options: Any) -> Any:
    return registry.compiler(name, options)


class Block(nn.Module):
    """A pre-norm transformer block."""

    def __init__(self, width: int = 16, heads: int = 2) -> None:
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.wide = nn.Sequential(nn.Linear(width, 32), nn.GELU(), nn.Linear(32, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.first(x)).chunk(3, -1)
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in parts)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
        return x + self.wide(self.second(x))


class Text(nn.Module):
    """Token and position embeddings, a block, a head."""

    def __init__(self) -> None:
        super().__init__()
        self.token, self.place = nn.Embedding(20, 16), nn.Embedding(8, 16)
        self.block, self.head = Block(), nn.Linear(16, 20)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        places = torch.arange(tokens.shape[1])
        return self.head(self.block(self.token(tokens) + self.place(places)))


def decoder() -> nn.Module:
    return nn.Sequential(nn.ConvTranspose2d(4, 6, 3, 2, 1, 1, groups=2), nn.Sigmoid())


def tokens() -> torch.Tensor:
    return torch.randint(20, (2, 6))


MODELS: dict[str, tuple[Any, Any]] = {
    "decoder": (decoder, lambda: torch.randn(2, 4, 5, 5)),
    "gpt": (Text, tokens),
}


@pytest.mark.parametrize("name", MODELS)
def test_models_run_in_one_part_and_follow_their_weights(harness: Harness, name: str) -> None:
    engine_zoo.follows_its_weights(harness, compiler(), *MODELS[name])


ODD = torch.tensor([torch.nan, -1.0, 0.0, -0.0, 1.0, torch.inf, -torch.inf])
INTS = torch.tensor([2**62, -(2**63), 7, -7, 0, 2**31])
ZOO: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "overflow": (lambda x: (x * x + x, x - 1, x.abs(), -x), (INTS,)),
    "signs": (lambda x: (x // 3, x % 3, x // -3, x % -3, x.fmod(3), x / 3), (INTS,)),
    "truncated": (lambda x: torch.div(x, -3, rounding_mode="trunc"), (INTS,)),
    "truncated exactly": (
        lambda x, y: (
            torch.div(x, y, rounding_mode="trunc"),
            torch.div(x, 7, rounding_mode="trunc"),
        ),
        (
            torch.tensor([2**53 + 1, -(2**53) - 1, 2**62 + 1, -7, 7, -(2**63)]),
            torch.tensor([1, 1, -1, 2, -2, 3]),
        ),
    ),
    "float signs": (lambda x: (x // 3, x % 3, x % -3, torch.fmod(x, -3)), (torch.randn(9) * 9,)),
    "shifts": (lambda x: (x << 3, x >> 2, x & 12, x ^ -1), (INTS,)),
    "uint8": (lambda x: (x.float() / 255, x * 3), (torch.arange(250, 256, dtype=torch.uint8),)),
    "unaligned": (lambda x: x.exp() + x, (torch.randn(65)[1:],)),
    "index": (lambda x, i: x[i] + x[:, i[1:]].sum(), (torch.randn(5, 3), torch.tensor([-1, 0, 2]))),
    "scatter": (
        lambda x, i: torch.zeros(4, 3).scatter_add(0, i, x).index_add(0, i[:, 0], x),
        (torch.randn(5, 3), torch.tensor([3, 0, 3, 1, 0])[:, None].expand(5, 3)),
    ),
    "sort": (lambda x: (torch.sort(x, dim=-1), torch.topk(x, 2)), (torch.randn(3, 7),)),
    "NaN": (
        lambda x: (torch.relu(x), x.clamp(-1, 1), x.log() + 1, x.max(), x.argmax(), x.sign()),
        (ODD,),
    ),
    "NaN in order": (lambda x: (x.sort(), torch.maximum(x, -x), x.amin(), x.round()), (ODD,)),
    "NaN in a window": (
        lambda x: F.max_pool2d(torch.relu(x), 2, padding=1, return_indices=True),
        (torch.tensor([torch.nan, *range(15)]).reshape(1, 1, 4, 4),),
    ),
    "ceiled windows": (
        lambda x: F.max_pool2d(x, 3, 2, 1, 2, ceil_mode=True, return_indices=True),
        (torch.randn(2, 3, 9, 8),),
    ),
    "cast": (lambda x: (x.long(), x.int(), x.bool()), (torch.randn(9) * 9,)),
    "cast beyond": (lambda x: (x.long(), x.bool(), x.double()), (ODD,)),
    "shapes": (
        lambda x: (x.squeeze(0).expand(2, -1, 3)[:, 1:9:2] + 1, x.mT.unsqueeze(-2).sum(-1)),
        (torch.randn(1, 5, 3),),
    ),
}


@pytest.mark.parametrize("name", ZOO)
def test_the_zoo_gives_what_eager_gives(harness: Harness, name: str) -> None:
    with torch.no_grad():
        engine_zoo.gives_what_eager_gives(
            harness, compiler(verify=False, min_partition=1), ZOO[name], calls=2
        )


def test_inputs_are_lent(monkeypatch: pytest.MonkeyPatch) -> None:
    arrays = []
    importer = session.importer

    def spy(example: torch.Tensor) -> Any:
        take = importer(example)
        return lambda tensor: arrays.append(take(tensor)) or arrays[-1]

    monkeypatch.setattr(session, "importer", spy)
    example = torch.randn(32)
    run = engine_zoo.lowered("xla", engine_zoo.square, example)
    run(example)
    run(example)
    assert [array.ctypes.data for array in arrays] == [example.data_ptr()] * 2


def test_bfloat16_is_lent() -> None:
    example = torch.randn(32).bfloat16()
    assert convert.importer(example)(example).ctypes.data == example.data_ptr()


def test_a_large_input_costs_no_copy() -> None:
    # XLA reads where torch wrote: a change of the memory behind a view shows in the next call.
    example = torch.zeros(1024)
    run = engine_zoo.lowered("xla", lambda x: (torch.ops.aten.mul.Tensor(x, 2),), example)
    example.numpy()[:] = 1
    engine_zoo.same(run(example)[0], torch.full((1024,), 2.0))


TRAINED = {name: MODELS[name] for name in ("gpt", "decoder")}
TRAINED["dropout"] = (
    lambda: nn.Sequential(
        engine_zoo.mlp().train(), nn.ReLU(), nn.Dropout(0.5), nn.Linear(4, 4), nn.Tanh()
    ),
    lambda: torch.randn(3, 8),
)


@pytest.mark.parametrize("name", TRAINED)
def test_gradients(harness: Harness, name: str) -> None:
    make, draw = TRAINED[name]
    engine_zoo.has_eagers_gradients(harness, compiler(verify=False), (make(), make()), draw)
    assert harness.engines["xla"] > harness.engines.get("eager", 0)
    if name == "gpt":
        assert set(harness.engines) == {"xla"}


def test_tracing_every_call_finds_its_executables(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_EXECUTABLES", type(session._EXECUTABLES)())
    traces = []
    trace = session.TracedOnce.lowered
    monkeypatch.setattr(
        session.TracedOnce, "lowered", lambda self: traces.append(self) or trace(self)
    )
    first, second = (engine_zoo.lowered("xla_trivial", lambda x: (torch.ops.aten.mul.Tensor(x, 3),), ODD)
                     for _ in range(2))  # fmt: skip
    for run in (first, second, first):
        engine_zoo.same(run(ODD)[0], ODD * 3)
    assert len(traces) == 5
    assert len(session._EXECUTABLES) == 1
    monkeypatch.setattr(session, "MAX_EXECUTABLES", 1)
    engine_zoo.lowered("xla_trivial", lambda x: (torch.ops.aten.mul.Tensor(x, 4),), ODD)
    assert len(session._EXECUTABLES) == 1
    engine_zoo.same(first(ODD)[0], ODD * 3)

    model = engine_zoo.cnn()
    compiled = harness.compile(model, compiler("xla_trivial"))
    with torch.no_grad():
        for _ in range(2):
            x = torch.randn(2, 3, 8, 8)
            engine_zoo.same(compiled(x), model(x))
    assert set(harness.engines) == {"xla_trivial"}


def test_torch_and_jax_stay_as_they_were() -> None:
    silent("""
import logging, os, sys
import jax, torch, torch._dynamo
from torch import nn
# A build for CUDA says there that it finds none.
logging.getLogger("torch.utils.cpp_extension").disabled = True
def state():
    return (torch.get_num_threads(), torch._C._get_privateuse1_backend_name(),
            torch.backends.mha.get_fastpath_enabled(), torch._dynamo.config.save_config(),
            len(torch._decomp.global_decomposition_table["post_autograd"]),
            torch.utils.rename_privateuse1_backend, torch._register_device_module,
            torch.get_rng_state().sum().item(), torch.get_default_dtype(), hasattr(torch, "jax"),
            dict(jax.config.values), dict(os.environ), hasattr(torch.ops.aten, "qr"))
model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16)).eval()
x = torch.randn(2, 8)
before = state()
from dynamo_ext.backends import registry
with torch.no_grad():
    torch.compile(model, backend=registry.compiler("xla"))(x)
assert state() == before
assert not [name for name in sys.modules if name.startswith("torchax")]
import jax.numpy as jnp
assert jnp.ones(3).dtype == jnp.float32 and jnp.arange(3).dtype == jnp.int32
with torch.random.fork_rng():
    torch.rand(1)
layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
calls = []
fast = torch._transformer_encoder_layer_fwd
torch._transformer_encoder_layer_fwd = lambda *args: calls.append(1) or fast(*args)
with torch.no_grad():
    layer(x[None])
assert calls
torch._dynamo.reset()
with torch.no_grad():
    found = torch.compile(lambda x: x.sin() + 1, backend="inductor")(x)
torch.testing.assert_close(found, x.sin() + 1)
torch.utils.rename_privateuse1_backend("mine")
""")


def test_a_client_started_otherwise_serves() -> None:
    silent(
        """
import jax
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_default_matmul_precision", "bfloat16")
assert jax.numpy.arange(3).sum() == 3
import torch
from dynamo_ext.backends import registry
assert registry.get("xla").probe().available
fn = lambda x: x @ x + 1
x = torch.randn(4, 4)
torch.testing.assert_close(torch.compile(fn, backend=registry.compiler("xla"))(x), fn(x))
""",
        XLA_FLAGS="--xla_force_host_platform_device_count=3",
    )


def test_the_client_gets_torchs_thread_count() -> None:
    silent(
        """
import os, torch
torch.set_num_threads(1)
from dynamo_ext.backends.engines.xla import session as xla_session
seen = []
import jax
start = jax.local_devices
jax.local_devices = lambda **k: seen.append(os.environ["NPROC"]) or start(**k)
xla_session.client("cpu")
assert seen == ["1"] and "NPROC" not in os.environ
"""
    )


def test_a_device_that_jax_lacks_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(kind: str) -> Any:
        raise RuntimeError(kind)

    monkeypatch.setattr(session, "client", missing)
    assert "no cuda device" in xla._device_reason("cuda")


def test_a_wrong_lowering_is_found(monkeypatch: pytest.MonkeyPatch, fresh_answers: None) -> None:
    for wrong, reason in (
        (lambda x: x + 1, "something else"),
        (lambda x: x[None], "shape"),
        (lambda x: x.nothing, "nothing"),
    ):
        monkeypatch.setitem(vars(xla.XLA._answers), "known", {})
        monkeypatch.setattr(xla_lowerings, "lowering", lambda _, wrong=wrong: wrong)
        answer = registry.get("xla").supports(engine_zoo.node_of(torch.ops.aten.exp.default, ODD))
        assert not answer
        assert reason in answer.reason


def test_probe_says_what_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("xla", "xla_trivial"):
        found = registry.get(name).probe()
        assert (found.available, found.device) == (True, "cpu")
        assert "torchax" in found.version

    def fail(*_: Any) -> Any:
        message = "not here\nat all"
        raise RuntimeError(message)

    with monkeypatch.context() as patch:
        patch.setattr(session, "client", fail)
        answer = registry.get("xla").probe()
        assert "not here" in answer.reason
        assert "JAX_PLATFORMS" in answer.remedy
    with monkeypatch.context() as patch:
        patch.setattr(xla_lowerings, "lowering", fail)
        assert "do not fit together" in registry.get("xla").probe().reason


def test_jax_starts_where_there_are_no_forks(monkeypatch: pytest.MonkeyPatch) -> None:
    here = session.client("cpu")
    monkeypatch.delattr(os, "register_at_fork")  # as on Windows
    assert session.client.__wrapped__("cpu") is here
