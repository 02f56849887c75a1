"""Weights under autocast are cast once, are never stale, and give what autocast gives."""

from __future__ import annotations

import copy
import gc
import operator
import weakref
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812 - as torch's own documentation has it

import dynamo_ext
from dynamo_ext.backends.compile_context import CompileContext
from dynamo_ext.backends.pipeline import freeze
from dynamo_ext.backends.pipeline.autocast import cast_weights
from tests.needs import needs_backend

if TYPE_CHECKING:
    from collections.abc import Callable

BACKENDS = ("eager", "aot_eager", "inductor", "ts")
X = torch.linspace(-1, 1, 40).reshape(5, 8)


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4)).eval()


class Tied(nn.Module):
    """The weight of an embedding is that of a product, too."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(8, 6)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.linear(self.table(x.abs().long()), self.table.weight)


class Convolved(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Conv1d(5, 3, 3)
        self.mixed = nn.Parameter(torch.linspace(0, 1, 18).reshape(6, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.addmm(self.layer.bias, self.layer(x).transpose(0, 1), self.mixed[:3]) @ (
            self.mixed.T
        )


class Sliced(nn.Module):
    """Where the sizes of a cast were symbols, Dynamo could not write guards for them."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        one, two, three = self.layer(x).chunk(3, -1)
        return one * two + three[..., :4].repeat(1, 2)


class Growing(nn.Module):
    """Each call changes the weight before it is read."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.layer.weight.mul_(1.5)
        return self.layer(x)


class Partly(nn.Module):
    """One product is kept out of autocast by the code itself."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", enabled=False):
            exact = self.layer(x)
        return torch.cat([self.layer(x), exact])


def by_autocast(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        return module(x).float()


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """``new`` for each time that weights were cast, ``again`` for each time they were again."""
    told: list[str] = []
    casts, cast_again = cast_weights.casts, cast_weights.cast_again

    def new(weights: Any, dtype: torch.dtype) -> Any:
        found = casts(weights, dtype)
        told.extend(["new"] if found else [])
        return found

    def again(*given: Any) -> None:
        told.append("again")
        cast_again(*given)

    monkeypatch.setattr(cast_weights, "casts", new)
    monkeypatch.setattr(cast_weights, "cast_again", again)
    return told


@pytest.fixture(autouse=True)
def without_gradients() -> object:
    torch._dynamo.reset()
    with torch.no_grad():
        yield


def lowered(backend: str, module: nn.Module, **options: Any) -> Any:
    needs_backend(backend)
    return dynamo_ext.optimize(f"{backend}:bf16", options=options)(module)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("build", [mlp, Tied, Convolved, Sliced, Growing, Partly])
def test_results_are_those_of_autocast(backend: str, build: Callable[[], nn.Module]) -> None:
    module = build()
    twin = copy.deepcopy(module)
    fast = lowered(backend, module)
    for _ in range(3):
        found, expected = fast(X), by_autocast(twin, X)
        # Inductor rounds where a product ends, and not after each operation behind it.
        assert (found - expected).norm() < 0.01 * expected.norm()
    assert not fast.report().fallbacks
    for mine, theirs in zip(module.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=0)


@pytest.mark.parametrize("backend", BACKENDS)
def test_weights_are_cast_once(backend: str, made: list[str]) -> None:
    fast = lowered(backend, mlp())
    for _ in range(4):
        fast(X)
    assert made == ["new"]


def test_not_where_it_is_asked_not_to(made: list[str]) -> None:
    module = mlp()
    fast = lowered("eager", module, freeze=False)
    torch.testing.assert_close(fast(X), by_autocast(module, X), rtol=0, atol=0)
    assert made == []


def test_not_where_gradients_are_recorded(made: list[str]) -> None:
    module = mlp()
    with torch.enable_grad():
        lowered("eager", module)(X).sum().backward()
    assert made == []
    assert all(each.grad is not None for each in module.parameters())


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m[0].weight.mul_(2),
        lambda m: m.load_state_dict(mlp().state_dict()),
        lambda m: setattr(m[2].bias, "data", torch.full((4,), 7.0)),
        lambda m: m[0].weight.data.mul_(3),
    ],
)
def test_a_change_is_seen(change: Callable[[nn.Module], Any], made: list[str]) -> None:
    module = mlp()
    fast = lowered("eager", module)
    fast(X)
    change(module)
    for _ in range(4):
        torch.testing.assert_close(fast(X), by_autocast(module, X), rtol=0, atol=0)
    # Once for the change, and once more when they have stayed and are watched again.
    assert made == ["new", "again", "again"]


def test_weights_that_change_in_each_call_are_cast_in_each(made: list[str]) -> None:
    module = mlp()
    fast = lowered("eager", module)
    for _ in range(20):
        torch.testing.assert_close(fast(X), by_autocast(module, X), rtol=0, atol=0)
        module[0].weight.mul_(1.1)
    assert made == ["new", *["again"] * 19]


@pytest.mark.parametrize("how", ["assigned", "copied"])
def test_weights_that_are_swapped_to_and_fro(how: str) -> None:
    """As an average of weights is for an evaluation."""
    module, one, two = mlp(), torch.randn(16, 8), torch.randn(16, 8)
    fast, other = lowered("eager", module), dynamo_ext.optimize("aot_eager:bf16")(module)
    for turn in range(24):
        if how == "assigned":
            module[0].weight.data = (one, two)[turn % 2]
        else:
            module[0].weight.data.copy_((one, two)[turn % 2])
        for function in (fast, other)[: 1 + turn % 3 // 2]:
            torch.testing.assert_close(function(X), by_autocast(module, X), rtol=0, atol=0)


def test_a_weight_that_changes_while_the_graph_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    module = mlp()
    lower = CompileContext.lower

    def slow(*given: Any) -> Any:
        made = lower(*given)
        module[0].weight.mul_(2)
        return made

    monkeypatch.setattr(CompileContext, "lower", slow)
    fast = lowered("aot_eager", module)
    for _ in range(2):
        torch.testing.assert_close(fast(X), by_autocast(module, X), rtol=0, atol=0)


def test_where_changes_are_not_seen_they_are_cast_in_each_call(
    monkeypatch: pytest.MonkeyPatch, made: list[str]
) -> None:
    """As on a GPU, where no element is looked at."""
    monkeypatch.setattr(freeze, "_samples", lambda _: [])
    monkeypatch.setattr(cast_weights, "_unseen", lambda _: True)
    module = mlp()
    fast = lowered("eager", module)
    for _ in range(3):
        torch.testing.assert_close(fast(X), by_autocast(module, X), rtol=0, atol=0)
        module[0].weight.data.mul_(1.5)
    assert made == ["new", *["again"] * 3]


@pytest.mark.usefixtures("older_objects_frozen")
def test_each_instance_has_casts_that_go_with_it(made: list[str]) -> None:
    function = dynamo_ext.optimize("eager:bf16")(lambda module, x: module(x))
    first, second = mlp(), mlp()
    for module in (first, second, first, second):
        torch.testing.assert_close(function(module, X), by_autocast(module, X), rtol=0, atol=0)
    assert made == ["new", "new"]
    del module
    gone = weakref.ref(second[0].weight)
    alive = len(casts_alive())
    del second
    gc.collect()
    assert gone() is None
    assert len(casts_alive()) == alive - 4


def casts_alive() -> list[torch.Tensor]:
    """Tensors in bfloat16 of the sizes of the weights."""
    sizes = {tuple(weight.shape) for weight in mlp().parameters()}
    found = (each for each in gc.get_objects() if type(each) is torch.Tensor)
    return [each for each in found if each.dtype is torch.bfloat16 and tuple(each.shape) in sizes]


def test_inference_mode_before_and_after() -> None:
    module = mlp()
    fast = lowered("aot_eager", module)
    with torch.inference_mode():
        fast(X)
    module[0].weight.mul_(2)
    torch.testing.assert_close(fast(X), by_autocast(module, X), rtol=0, atol=0)
    with torch.inference_mode():
        torch.testing.assert_close(fast(X), by_autocast(module, X), rtol=0, atol=0)
    assert not fast.report().fallbacks


def test_gradients_that_the_code_switches_on_get_through() -> None:
    module = nn.Linear(8, 4)

    def learning(x: torch.Tensor) -> torch.Tensor:
        torch.set_grad_enabled(True)
        return module(x).softmax(-1)

    found = dynamo_ext.optimize("eager:bf16")(learning)(X)
    assert found.requires_grad


def test_a_weight_in_memory_that_the_graph_changes_is_read_itself(made: list[str]) -> None:
    weight = nn.Parameter(torch.randn(4, 8))
    other = nn.Parameter(weight.data)

    def changing(x: torch.Tensor) -> torch.Tensor:
        weight.mul_(1.5)
        return F.linear(x, other)

    fast = dynamo_ext.optimize("eager:bf16", options={"verify": False})(changing)
    for _ in range(2):
        found = fast(X)
        with torch.autocast("cpu", torch.bfloat16):
            torch.testing.assert_close(found, F.linear(X, other).float(), rtol=0, atol=0)
    assert made == []


SHAPES: dict[Any, list[tuple[int, ...]]] = {
    **{key: [(3, 3), (3, 3)] for key in [F.linear, operator.matmul, torch.matmul, torch.mm]},
    torch.bmm: [(2, 3, 3), (2, 3, 3)],
    torch.addmm: [(3, 3), (3, 3), (3, 3)],
    torch.baddbmm: [(2, 3, 3), (2, 3, 3), (2, 3, 3)],
    torch.addbmm: [(3, 3), (2, 3, 3), (2, 3, 3)],
    **{key: [(1, 2, 5), (2, 2, 3)] for key in [F.conv1d, F.conv_transpose1d]},
    **{key: [(1, 2, 5, 5), (2, 2, 3, 3)] for key in [F.conv2d, F.conv_transpose2d]},
    **{key: [(1, 2, 5, 5, 5), (2, 2, 3, 3, 3)] for key in [F.conv3d, F.conv_transpose3d]},
}


@pytest.mark.parametrize("product", SHAPES)
def test_autocast_casts_every_operand_of_what_counts_as_a_product(product: Any) -> None:
    assert SHAPES.keys() == cast_weights.PRODUCTS
    for position in range(len(SHAPES[product])):
        given = [torch.randn(shape) for shape in SHAPES[product]]
        given[position] = given[position].bfloat16()
        with torch.autocast("cpu", torch.bfloat16):
            assert product(*given).dtype is torch.bfloat16


@pytest.mark.parametrize("backend", BACKENDS)
def test_sizes_that_are_symbols(backend: str, made: list[str]) -> None:
    needs_backend(backend)
    module = mlp()
    fast = torch.compile(
        module, backend=f"dx_{backend}", options={"precision": "bf16"}, dynamic=True
    )
    for length in (3, 5, 9):
        x = torch.randn(length, 8)
        # A product and a sum, which are one operation in the others, round once more.
        allowed = {"rtol": 0.0, "atol": 0.01} if backend == "ts" else {"rtol": 0.01, "atol": 1e-6}
        torch.testing.assert_close(fast(x), by_autocast(module, x), **allowed)
    assert made == ["new"]
