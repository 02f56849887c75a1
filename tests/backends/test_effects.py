"""What running a captured graph may do: by schema, by torch's names, and yes where unknown."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812 - as torch's own documentation has it
from torch.utils.checkpoint import checkpoint

from dynamo_ext.backends import effects
from tests.capture.captured import captured

X = torch.linspace(0.1, 0.9, 12).reshape(4, 3)
STATISTICS = torch.zeros(3), torch.ones(3)
IN_PLACE = [
    getattr(operator, name)
    for name in dir(operator)
    if name.startswith("i") and hasattr(operator, f"__{name}__")
    if hasattr(operator, f"__{name[1:]}__") and name not in ("iconcat", "imatmul")
]


def of(function: Any, *args: Any) -> effects.Effects:
    """Those of the graph that Dynamo makes of a function."""
    return effects.of_graph(captured(function, *args or (X.clone(),))[0])


def told(changes: bool = False, draws: bool = False) -> effects.Effects:
    return effects.Effects(changes, draws)


def batch_norm(x: torch.Tensor, *, training: bool) -> torch.Tensor:
    return F.batch_norm(x, *STATISTICS, None, None, training)


def recurrent(x: torch.Tensor, dropout: float) -> torch.Tensor:
    weights = [torch.ones(12, 3), torch.ones(12, 3), torch.ones(12), torch.ones(12)] * 2
    state = torch.zeros(2, 4, 3), torch.zeros(2, 4, 3)
    return torch.lstm(x[None], state, weights, True, 2, dropout, True, False, False)[0]  # type: ignore[arg-type]


@pytest.mark.parametrize("function", IN_PLACE, ids=lambda f: f.__name__)
def test_every_in_place_operator_of_python_changes(function: Any) -> None:
    whole = torch.float32 if function is operator.itruediv else torch.int64
    x = torch.full((3,), 8, dtype=whole)
    assert of(lambda x: function(x, 2), x) == told(changes=True)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.add_(1),
        torch.relu_,
        lambda x: F.relu(x, True),
        lambda x: F.hardswish(x, inplace=True),
        lambda x: torch.add(x, 1, out=torch.empty(4, 3)),
        lambda x: torch.max(x, 0, out=(torch.empty(3), torch.empty(3).long())),
        lambda x: F.normalize(x, out=torch.empty(4, 3)),
        lambda x: x.__setitem__(0, 1.0),
        lambda x: torch.ops.aten.add_(x, 1),
        lambda x: torch.ops.aten.add_.Tensor(x, x),
        lambda x: torch._foreach_add_([x], 1),
        lambda x: x.index_put_((torch.tensor([0]),), torch.tensor(1.0)),
        lambda x: batch_norm(x, training=True),
        lambda x: torch.batch_norm(x, None, None, *STATISTICS, True, 0.1, 1e-5, False),
        lambda x: torch.native_batch_norm(x, None, None, *STATISTICS, True, 0.1, 1e-5)[0],
        lambda x: F.instance_norm(x[None], torch.zeros(4), torch.ones(4)),
        lambda x: F.embedding(x.long(), torch.ones(9, 2), max_norm=1.0),
        lambda x: F.embedding_bag(x.long(), torch.ones(9, 2), max_norm=1.0),
        lambda x: torch.cond(x.sum() > 0, lambda y: y.clone().add_(1), lambda y: y + 1, (x,)),
    ],
)
def test_what_changes_a_tensor(function: Any) -> None:
    assert of(function) == told(changes=True)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x + torch.rand_like(x),
        lambda x: x + torch.rand(4, 3),
        lambda x: x + torch.randn(3),
        lambda x: x.bernoulli(),
        lambda x: torch.normal(x, x),
        F.dropout,
        F.dropout1d,
        lambda x: F.alpha_dropout(x, training=True),
        F.gumbel_softmax,
        lambda x: torch.dropout(x, 0.5, True),
        lambda x: F.rrelu(x, training=True),
        lambda x: F.fractional_max_pool2d(x[None], 2, output_size=1),
        lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None], dropout_p=0.5),
        lambda x: recurrent(x, 0.5),
        lambda x: checkpoint(F.dropout, x, use_reentrant=False),
    ],
)
def test_what_draws_numbers(function: Any) -> None:
    assert of(function) == told(draws=True)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.sort(x)[0] + torch.max(x) + x.sort(0)[1],
        lambda x: (x.long() & 1) | x.long(),
        lambda x: operator.invert(x.long()),
        lambda x: F.layer_norm(x, (3,)),
        lambda x: F.interpolate(x[None], scale_factor=2.0),
        torch.linalg.norm,
        lambda x: torch.ones(2, 2) + x[:2, :2],
        lambda x: x.to(torch.float64).view(-1).reshape(3, 4).cpu().float().repeat(2, 2),
        lambda x: torch._foreach_add([x], 1)[0],
        lambda x: batch_norm(x, training=False),
        lambda x: torch.native_batch_norm(x, None, None, *STATISTICS, False, 0.1, 1e-5)[0],
        lambda x: F.instance_norm(x[None]),
        lambda x: F.embedding(x.long(), torch.ones(9, 2)),
        lambda x: F.relu(x, False),
        lambda x: F.dropout(x, training=False),
        lambda x: torch.dropout(x, 0.5, False),
        F.rrelu,
        lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]),
        lambda x: torch.nn.MultiheadAttention(3, 1)(x, x, x)[0],
        lambda x: checkpoint(torch.sin, x, use_reentrant=False),
        lambda x: torch.cond(x.sum() > 0, lambda y: y + 1, lambda y: y - 1, (x,)),
        torch.vmap(torch.sin),
        lambda x: recurrent(x, 0.0),
    ],
)
def test_what_does_nothing_but_give_results(function: Any) -> None:
    assert of(function) == told()


@torch.compiler.allow_in_graph
def mine(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def test_what_is_not_known_may_do_both() -> None:
    assert of(lambda x: mine(x) * 2) == told(changes=True, draws=True)
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    node = graph.call_module("inner", (x,))
    torch.fx.GraphModule({"inner": torch.nn.BatchNorm1d(3)}, graph)
    assert effects.of_node(node) == told(changes=True, draws=True)


def test_a_graph_within_a_graph_is_looked_into() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    node = graph.call_module("inner", (x,))
    inner = torch.fx.symbolic_trace(lambda x: F.relu(x, inplace=True))
    torch.fx.GraphModule({"inner": inner}, graph)
    assert effects.of_node(node) == told(changes=True)


@pytest.mark.parametrize(("declared", "expected"), [("(a!)", True), ("", False)])
def test_an_operator_of_the_users_is_known_by_its_schema(declared: str, expected: bool) -> None:
    library = torch.library.Library("dx_effects", "FRAGMENT")
    library.define(f"norm(Tensor{declared} running_mean, bool training, bool inplace) -> Tensor")
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    target = torch.ops.dx_effects.norm
    nodes = [
        graph.call_function(target.default, (x, True, True)),
        graph.call_function(target, (x, True, True)),
    ]
    found = [effects.of_node(node) for node in nodes]
    library._destroy()
    assert found == [told(changes=expected)] * 2


def test_the_functional_form_of_a_norm_changes_nothing() -> None:
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    target = torch.ops.aten._native_batch_norm_legit_functional.default
    node = graph.call_function(target, (x, None, None, x, x, True, 0.1, 1e-5))
    assert effects.of_node(node) == told()


@pytest.mark.parametrize(("function", "own"), [(torch.manual_seed, False), (torch.relu, True)])
def test_what_sets_torchs_own_state_is_not_called_again(function: Any, own: bool) -> None:
    graph = torch.fx.Graph()
    assert effects.is_torchs_own(graph.call_function(function, (0,))) is own
