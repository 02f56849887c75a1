"""Modes, fake tensors and symbols: what torch's dispatcher does at this moment."""

import contextlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch.fx import GraphModule

SYMBOLS = (torch.SymInt, torch.SymFloat, torch.SymBool)
NUMBERS = (int, float, *SYMBOLS)
_KINDS = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}


def without_view_tracking(call: Callable[..., Any]) -> Callable[..., Any]:
    """``call`` without autograd's views, whose ``_view_func`` forgets a dtype (2.13.0)."""
    guard: Any = torch._C._AutoDispatchBelowADInplaceOrView

    def quietly(*args: Any) -> Any:
        with guard():
            return call(*args)

    return quietly


@contextlib.contextmanager
def outside_modes() -> Iterator[None]:
    """Switch off fake and functional modes, and Python's dispatcher, for real tensors."""
    from torch._dispatch.python import no_python_dispatcher
    from torch.utils._python_dispatch import _disable_current_modes

    with no_python_dispatcher(), _disable_current_modes():
        yield


def ends_recomputation(error: BaseException) -> bool:
    """Whether an error only ends ``torch.utils.checkpoint``'s recomputation, without a failure."""
    from torch.utils.checkpoint import _StopRecomputationError

    return isinstance(error, _StopRecomputationError)


def saving_is_watched() -> bool:
    """Whether hooks record each tensor that is saved for the backward pass (a checkpoint)."""
    ignoring_traces = True
    return torch._C._autograd._top_saved_tensors_default_hooks(ignoring_traces) is not None


def autocasts(graph: GraphModule) -> bool:
    """Whether autocast is on where a captured graph is called, or anywhere in it."""
    enter = torch.amp.autocast_mode._enter_autocast
    inside = any(node.target is enter for node in graph.graph.nodes)
    return inside or bool(torch._C._is_any_autocast_enabled())


def is_fake(value: object) -> bool:
    """Whether ``value`` is a tensor that has no elements to read."""
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(value, FakeTensor)


def share_memory(one: object, other: object) -> bool:
    """Whether two values are tensors in the same memory; of fake ones, in the same fake memory."""
    both = isinstance(one, torch.Tensor) and isinstance(other, torch.Tensor)
    return both and bool(torch._C._is_alias_of(one, other))  # type: ignore[attr-defined]


def memory_of(tensor: torch.Tensor) -> int | None:
    """What is equal for tensors in the same memory, fake ones too; ``None`` where it has none."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return None


def stays_put(tensor: torch.Tensor) -> bool:
    """Whether Dynamo guards that an input is the same object in each call."""
    return isinstance(tensor, torch.nn.Parameter) or hasattr(tensor, "_dynamo_static_input_type")


def copy_all(into: list[torch.Tensor], sources: Iterable[torch.Tensor]) -> None:
    """Copy each tensor into another, which may have another dtype: on a GPU all of them at once."""
    with torch.no_grad():
        torch._foreach_copy_(into, [source.detach() for source in sources])


def is_plain_tensor(value: object) -> bool:
    """Whether ``value`` is a real strided tensor: no fake, no subclass with its own dispatch."""
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    return (
        isinstance(value, torch.Tensor)
        and not is_fake(value)
        and not is_traceable_wrapper_subclass(value)
        and value.layout is torch.strided
    )


def has_unbacked(value: object) -> bool:
    """Whether a node's value has a size that only the data decides."""
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    return bool(free_unbacked_symbols(value))


def is_symbolic(value: object) -> bool:
    """Whether a node's value is a symbolic number, or a tensor with a symbolic size."""
    if isinstance(value, SYMBOLS):
        return True
    if isinstance(value, torch.Tensor):
        return any(isinstance(size, torch.SymInt) for size in (*value.shape, *value.stride()))
    return isinstance(value, (tuple, list)) and any(map(is_symbolic, value))


def number(value: Any) -> Any:
    """A symbolic number as it was when the graph was traced; any other value as it is."""
    kind = _KINDS.get(type(value))
    if kind is None:
        return value
    hint = value.node.hint
    return kind(2 if hint is None else hint)


def without_symbols(shown: Sequence[Any], given: Sequence[Any]) -> Callable[[Any], Any]:
    """What makes a graph's values without symbols: numbers, and fake tensors of their own mode.

    The symbols in ``shown``, values of the graph, are what ``given`` has in their places. What it
    gives raises ``LookupError`` for a value with others.
    """
    known = _symbols(shown, given)
    mode = fake_mode()

    def plain(value: Any) -> Any:
        if isinstance(value, SYMBOLS):
            # As it was written down: torch looks its symbols up again at each ``expr``.
            expression = value.node._expr
            if expression not in known:
                found = value.node.expr.xreplace(known)
                # Where all of it is one symbol, a plain number is found.
                if getattr(found, "free_symbols", ()):
                    raise LookupError(found)
                known[expression] = found
            return _KINDS[type(value)](known[expression])
        if isinstance(value, (tuple, list)):
            return type(value)(map(plain, value))
        if not isinstance(value, torch.Tensor):
            return value
        if value.layout is not torch.strided or is_symbolic(value.storage_offset()):
            raise LookupError(value)
        sizes, strides = map(plain, value.shape), map(plain, value.stride())
        return fake_tensor(mode, [*sizes], [*strides], value.dtype, value.device)

    return plain


def fake_tensor(
    mode: Any,
    sizes: Sequence[int],
    strides: Sequence[int],
    dtype: torch.dtype,
    device: torch.device,
) -> Any:
    """A fake tensor of a mode."""
    from torch._subclasses.fake_tensor import FakeTensor

    # In the mode, torch would take ten times as long for each.
    made = torch.empty_strided(sizes, strides, dtype=dtype, device="meta")
    return FakeTensor(mode, made, device)


def _symbols(shown: Sequence[Any], given: Sequence[Any]) -> dict[Any, Any]:
    known = {}
    for symbolic, real in zip(shown, given, strict=True):
        tensors = isinstance(symbolic, torch.Tensor)
        pairs = zip(symbolic.shape, real.shape, strict=True) if tensors else [(symbolic, real)]
        for one, other in pairs:
            if isinstance(one, SYMBOLS):
                known[one.node._expr] = known[one.node.expr] = other
    return known


def mode_of_tracing() -> Any:
    """The mode of the fake tensors of a graph that Dynamo is compiling; a fresh one elsewhere."""
    from torch._guards import detect_fake_mode

    return detect_fake_mode() or fake_mode()


def fake_mode() -> Any:
    """A fresh mode for shape propagation, apart from the one Dynamo is tracing under."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    return FakeTensorMode(allow_non_fake_inputs=True)


def versions_kept(values: Iterable[Any]) -> Any:
    """Have autograd take tensors for unchanged by the block, which puts back what they held.

    The backward pass of what ran before would refuse tensors that were written to.
    """
    tensors = (each for each in values if isinstance(each, torch.Tensor))
    kept = tuple(each for each in tensors if not each.is_inference())
    return torch.autograd._unsafe_preserve_version_counter(kept)
