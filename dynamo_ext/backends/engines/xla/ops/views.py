"""Operators that only say how the same elements are read; right or wrong whatever the data.

A shape that is not torch's is found when the graph is traced, so these are taken untried: they
are a third of a graph's operations, each with numbers of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def _same(x: Any, **_: Any) -> Any:
    return x


def _view(x: Any, size: Sequence[int]) -> Any:
    return x.reshape(tuple(size))


def _permute(x: Any, dims: Sequence[int]) -> Any:
    return x.transpose([dim % x.ndim for dim in dims]) if x.ndim else x


def _transpose(x: Any, first: int, second: int) -> Any:
    return x.swapaxes(first, second) if x.ndim else x


def _unsqueeze(x: Any, dim: int) -> Any:
    import jax.numpy as jnp

    return jnp.expand_dims(x, dim)


def _squeeze(x: Any, dims: int | Sequence[int] | None = None) -> Any:
    given = range(x.ndim) if dims is None else [dims] if isinstance(dims, int) else dims
    return x.squeeze(tuple({d % x.ndim for d in given if x.shape[d] == 1} if x.ndim else ()))


def _expand(x: Any, size: Sequence[int], *, implicit: bool = False) -> Any:
    import jax.numpy as jnp

    del implicit
    own = (1,) * (len(size) - x.ndim) + x.shape
    wanted = tuple(had if s == -1 else s for had, s in zip(own, size, strict=True))
    return jnp.broadcast_to(x, wanted)


def _along(x: Any, dim: int, index: Any) -> Any:
    return x[(slice(None),) * (dim % x.ndim) + (index,)]


def _slice(
    x: Any, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Any:
    return _along(x, dim, slice(start, end, step))


OWN: dict[str, Callable[..., Any]] = {
    "aten::unsqueeze": _unsqueeze,
    "aten::permute": _permute,
    "aten::transpose.int": _transpose,
    "aten::t": lambda x: x.T,
    "aten::expand": _expand,
    "aten::select.int": _along,
    "aten::slice.Tensor": _slice,
    **dict.fromkeys(("aten::alias", "aten::clone", "aten::detach"), _same),
    **dict.fromkeys(("aten::view", "aten::_unsafe_view", "aten::reshape"), _view),
    **dict.fromkeys(("aten::squeeze", "aten::squeeze.dim", "aten::squeeze.dims"), _squeeze),
}
