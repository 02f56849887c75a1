"""Operators that read or write where an index says, with the check that XLA leaves out.

XLA clamps an index that is out of range, or drops what it would write; torch raises. So each of
these lowerings also tells whether its indices are in range: ``require`` collects that within a
trace, the executable returns it as one more result, and a call that breaks it raises. The
pipeline then runs the partition eagerly, where torch raises its own error.
"""

import contextlib
import contextvars
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

_REQUIRED: contextvars.ContextVar[list[Any] | None] = contextvars.ContextVar(
    "required", default=None
)


@contextlib.contextmanager
def collecting() -> Iterator[list[Any]]:
    """Collect what the lowerings of a trace require: boolean scalars, all to be true."""
    found: list[Any] = []
    token = _REQUIRED.set(found)
    try:
        yield found
    finally:
        _REQUIRED.reset(token)


def require(condition: Any) -> None:
    """Make a call fail unless every element of a boolean array is true."""
    import jax.numpy as jnp

    found = _REQUIRED.get()
    if found is not None:
        found.append(jnp.all(condition))


def _in_range(index: Any, size: int, *, negative: bool = False) -> Any:
    """The index as a non-negative one; what is out of range fails the call."""
    import jax.numpy as jnp

    require((index >= (-size if negative else 0)) & (index < size))
    return jnp.where(index < 0, index + size, index) if negative else index


def _embedding(weight: Any, indices: Any, *_: Any, **__: Any) -> Any:
    import jax.numpy as jnp

    return jnp.take(weight, _in_range(indices, weight.shape[0]), axis=0, mode="clip")


def _index_select(x: Any, dim: int, index: Any) -> Any:
    import jax.numpy as jnp

    if x.ndim == 0:
        _in_range(index, 1)
        return x
    return jnp.take(x, _in_range(index, x.shape[dim]).reshape(-1), axis=dim, mode="clip")


def _all_but(index: Any, dim: int) -> list[Any]:
    """Coordinates of each element of ``index``, with ``index`` itself along ``dim``."""
    import jax.numpy as jnp

    places = list(jnp.indices(index.shape, dtype=index.dtype, sparse=True))
    places[dim] = index
    return places


def _gather(x: Any, dim: int, index: Any, *, sparse_grad: bool = False) -> Any:
    del sparse_grad
    if x.ndim == 0 or index.ndim == 0:
        x, index = x.reshape(-1), index.reshape(-1)
        return x[_in_range(index, x.shape[0])].reshape(index.shape if index.size != 1 else ())
    return x[tuple(_all_but(_in_range(index, x.shape[dim]), dim))]


def _scatter(x: Any, dim: int, index: Any, source: Any, *, reduce: str = "set") -> Any:
    import jax.numpy as jnp

    index = _in_range(index, x.shape[dim])
    if hasattr(source, "ndim") and source.ndim:
        source = source[tuple(map(slice, index.shape))]
    places = tuple(_all_but(index, dim))
    writer = getattr(x.at[places], {"multiply": "multiply", "add": "add"}.get(reduce, "set"))
    return writer(jnp.asarray(source, dtype=x.dtype))


def _selection(x: Any, indices: Sequence[Any]) -> tuple[Any, ...]:
    if any(index is not None and str(index.dtype) in ("bool", "uint8") for index in indices):
        message = "The shape that a mask selects depends on the data"
        raise NotImplementedError(message)
    return tuple(
        slice(None) if index is None else _in_range(index, size, negative=True)
        for index, size in zip(indices, x.shape, strict=False)
    )


def _index(x: Any, indices: Sequence[Any]) -> Any:
    return x[_selection(x, indices)]


def _index_put(
    x: Any,
    indices: Sequence[Any],
    values: Any,
    accumulate: bool = False,  # noqa: FBT001, FBT002 - ATen's own signature
) -> Any:
    import jax.numpy as jnp

    mask = indices[0]
    if len(indices) == 1 and mask is not None and mask.dtype == jnp.bool_:
        if values.size != 1:
            message = "How many values a mask takes depends on the data"
            raise NotImplementedError(message)
        mask = mask.reshape(mask.shape + (1,) * (x.ndim - mask.ndim))
        value = values.reshape(()).astype(x.dtype)
        return jnp.where(mask, x + value if accumulate else value, x)
    place = x.at[_selection(x, indices)]
    return place.add(values) if accumulate else place.set(values)


def _index_add(x: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Any:
    place = (slice(None),) * (dim % x.ndim) + (_in_range(index.reshape(-1), x.shape[dim]),)
    return x.at[place].add((source * alpha).astype(x.dtype))


OWN: dict[str, Callable[..., Any]] = {
    "aten::embedding": _embedding,
    "aten::index_select": _index_select,
    "aten::gather": _gather,
    "aten::scatter_add": functools.partial(_scatter, reduce="add"),
    "aten::index_add": _index_add,
    **{f"aten::scatter.{name}": _scatter for name in ("src", "value", "reduce", "value_reduce")},
    "aten::index.Tensor": _index,
    "aten::index_put": _index_put,
}

_UNCHECKED = (
    "aten::index_copy",
    "aten::scatter_reduce",
    "aten::embedding",
    "aten::put",
    "aten::masked_scatter",
    "aten::repeat_interleave",
)


def unchecked(name: str) -> bool:
    """Whether an operator takes indices and no lowering here checks them."""
    return name not in OWN and name.startswith(_UNCHECKED)
