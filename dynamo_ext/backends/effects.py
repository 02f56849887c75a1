"""What running a captured graph may do besides giving its results: change a tensor, draw numbers.

The one answer for code that runs a graph again, moves its operations, or computes one ahead. An
operator's schema says what it writes to, and its tags that it draws. What Dynamo captures besides
(functions and methods of Python's) is looked up by its name among torch's operators, and follows
torch's conventions for names. What is not known may do both.
"""

import functools
import inspect
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from torch.fx import GraphModule, Node

from dynamo_ext.backends.fx_graph import attribute
from dynamo_ext.torch_private import fx_nodes


class Effects(NamedTuple):
    """What an operation, or a graph of them, may do.

    ``changes``: write to a tensor that it was given or that the graph holds, or reach outside of
    the graph. ``draws``: take random numbers from a generator.
    """

    changes: bool
    draws: bool


_NONE = Effects(changes=False, draws=False)
_UNKNOWN = Effects(changes=True, draws=True)

_KNOWN = ("torch", "_operator", "builtins", "math")
"""Libraries whose functions do what their names and arguments tell."""

_OUTSIDE = ("torch.distributed", "torch._C._distributed", "torch.random")
"""Parts of torch of which that is not true."""

_HOLDING = ("torch._ops", "torch._higher_order_ops", "torch.autograd", "torch.utils.checkpoint")
"""Parts of torch that hold operators and functions of others."""

_TRANSFORMS = ("torch._functorch", "torch._C._functorch")

_PLAIN_OPERATORS = ("torch._ops.aten", "torch._ops.prims")

_DRAWING = ("gumbel_softmax", "fractional_max_pool", "lowrank", "lobpcg")
"""Parts of names of torch's Python functions that draw, and have no argument that tells."""

_UNDECLARED = frozenset(
    {"batch_norm_gather_stats", "batch_norm_gather_stats_with_counts", "batch_norm_update_stats"}
)
"""Operators that update the statistics they are given, and do not say so in any way."""


def of_graph(graph: GraphModule) -> Effects:
    """What a graph of Dynamo's or AOTAutograd's may do: what any of its operations may."""
    return _together(map(of_node, graph.graph.nodes))


def of_node(node: Node) -> Effects:
    """What an operation may do; nothing where a node is not an operation."""
    target: Any = node.target
    if not node.op.startswith("call_") or (fx_nodes.is_overload(target) and _is_inert(target)):
        return _NONE
    if node.op == "call_module" or fx_nodes.is_higher_order(target):
        return _of_inner(node)
    if not (isinstance(target, str) or _is_known(target)):
        return _UNKNOWN
    name = str(getattr(target, "__name__", target)).partition(".")[0]
    readings = _readings(node, name)
    changes = any(told.changes for _, told in readings)
    if not fx_nodes.is_operator(target):
        changes = changes or _is_inplace(name, target) or node.kwargs.get("out") is not None
        # By torch's names for arguments that a call writes to, or that have it write to another.
        written = (given.get(each) for given, _ in readings for each in ("out", "max_norm"))
        changes = changes or any(each is not None for each in written)
        changes = changes or any(given.get("inplace") for given, _ in readings)
    if not fx_nodes.is_operator(target, besides=("aten", "prims")):
        changes = changes or any(_updates(name, given) for given, _ in readings)
    return Effects(changes, any(told.draws for _, told in readings))


def _together(effects: Iterable[Effects]) -> Effects:
    found = list(effects)
    return Effects(any(each.changes for each in found), any(each.draws for each in found))


def _of_inner(node: Node) -> Effects:
    """What the graphs within an operation may do, which is all of it where it has any."""
    inside = [each.target for each in node.all_input_nodes if each.op == "get_attr"]
    names = [node.target] if node.op == "call_module" else inside
    owner: Any = node.graph.owning_module
    found = [attribute(owner, str(name)) for name in names]
    graphs = [each for each in found if isinstance(each, GraphModule)]
    return _together(map(of_graph, graphs)) if graphs else _UNKNOWN


def _readings(node: Node, name: str) -> list[tuple[Mapping[str, Any], Effects]]:
    """The arguments of a call by name, and what these and the schema tell, for each overload."""
    target: Any = node.target
    overloads = fx_nodes.overloads(target)
    given = bound(node)
    fitting = [each for each in overloads if _fits(node, each)] if given is None else []
    if fitting:
        return [
            _told(fx_nodes.arguments(node, o), _written(o), may_draw=fx_nodes.is_seeded(o))
            for o in fitting
        ]
    # Python's own function, or sizes that are not in a list: `torch.rand(2, 3)`.
    given = node.kwargs if given is None else given
    drops = "training" in given and "running_mean" not in given
    seeded = any(map(fx_nodes.is_seeded, overloads))
    may_draw = seeded or drops or any(part in name for part in _DRAWING)
    return [_told(given, (), may_draw=may_draw)]


@functools.lru_cache(maxsize=4096)
def _written(overload: Any) -> Sequence[str]:
    """The arguments of an overload that a call writes to."""
    arguments = overload._schema.arguments  # noqa: SLF001 - FX itself reads it so
    told = ((each.name, each.alias_info) for each in arguments)
    return [name for name, alias in told if alias is not None and alias.is_write]


def _told(
    given: Mapping[str, Any], written: Sequence[str], *, may_draw: bool
) -> tuple[Mapping[str, Any], Effects]:
    changes = any(given[name] is not None for name in written)
    # Attention, dropout and recurrent layers may be set not to draw.
    trains = given.get("training", given.get("train"))
    drops = [given[name] for name in ("dropout_p", "dropout") if name in given]
    idle = trains in (False, 0) or any(share in (0, None) for share in drops)
    return given, Effects(changes, may_draw and not idle)


def bound(node: Node) -> Mapping[str, Any] | None:
    """The arguments by the names of a Python function; ``None`` where C has none."""
    signature = _signature(node.target)
    if signature is None:
        return None
    try:
        bound = signature.bind(*node.args, **node.kwargs)
    except TypeError:
        return node.kwargs
    bound.apply_defaults()
    return bound.arguments


@functools.lru_cache(maxsize=4096)
def _signature(target: Any) -> inspect.Signature | None:
    return inspect.signature(target) if inspect.isfunction(target) else None


def _fits(node: Node, overload: Any) -> bool:
    """Whether a call may be of an overload: it has a list where that wants one to write to."""
    arguments = _accepted(overload)
    for given, (of_one, of_list) in zip(node.args, arguments, strict=False):
        if not (of_list if isinstance(given, (list, tuple)) else of_one):
            return False
    return len(node.args) <= len(arguments)


@functools.lru_cache(maxsize=4096)
def _accepted(overload: Any) -> Sequence[tuple[bool, bool]]:
    """Whether each argument of an overload may be one value, and whether a list, by position."""
    accepted = []
    for argument in overload._schema.arguments:  # noqa: SLF001 - FX itself reads it so
        kind, named = str(argument.type), argument.kwarg_only
        written_list = kind.startswith("List") and argument.alias_info is not None
        accepted.append((not (named or written_list), not named and kind != "Tensor"))
    return accepted


@functools.lru_cache(maxsize=4096)
def _is_inert(overload: Any) -> bool:
    """Whether an operator is one of torch's that writes to no argument and never draws."""
    own = fx_nodes.library(overload) in ("aten", "prims")
    return own and not (fx_nodes.is_seeded(overload) or _written(overload))


def _is_known(target: Any) -> bool:
    module = _module_of(target)
    return module.partition(".")[0] in _KNOWN and not module.startswith(_OUTSIDE)


def _is_inplace(name: str, target: Any) -> bool:
    """Whether a function or a method changes its first argument, by torch's and Python's names."""
    if name in ("setitem", "delitem", "backward", "__setitem__", "__delitem__"):
        return True
    plain = name.strip("_")
    if getattr(target, "__module__", "") == "_operator" or name.startswith("__"):
        known = hasattr(operator, f"__{plain}__") and hasattr(operator, f"__{plain[1:]}__")
        return plain.startswith("i") and known
    return name.endswith("_")


def _updates(name: str, given: Mapping[str, Any]) -> bool:
    """Whether a norm updates the statistics it is given, of which its schema says nothing."""
    told = given.get("training") or given.get("use_input_stats") or name in _UNDECLARED
    held = given.get("running_mean") is not None and not name.endswith("_functional")
    return held and bool(told)


def is_torchs_own(node: Node) -> bool:
    """Whether a node computes with torch's own functions, whose effects are known, and no others.

    Neither collectives nor what holds functions of the user's.
    """
    module = _module_of(node.target)
    holding = module.startswith(_HOLDING) and not module.startswith(_PLAIN_OPERATORS)
    return node.op != "call_module" and _is_known(node.target) and not holding


def holds_transforms(graph: GraphModule) -> bool:
    """Whether a graph begins and ends transforms of ``torch.func``: an error between them stays."""
    return any(_module_of(node.target).startswith(_TRANSFORMS) for node in graph.graph.nodes)


def _module_of(target: Any) -> str:
    # A method by its name is one of tensors.
    return getattr(target, "__module__", None) or "torch"
