"""Operators that read or write where an index says.

XLA clamps an index that is out of range, or drops what it would write; torch raises. The check is
in the partition itself (``data_checks``).
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any


def _embedding(weight: Any, indices: Any, *_: Any, **__: Any) -> Any:
    import jax.numpy as jnp

    return jnp.take(weight, indices, axis=0, mode="clip")


def _index_select(x: Any, dim: int, index: Any) -> Any:
    import jax.numpy as jnp

    if x.ndim == 0:
        return x
    return jnp.take(x, index.reshape(-1), axis=dim, mode="clip")


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
        return x[index].reshape(index.shape if index.size != 1 else ())
    return x[tuple(_all_but(index, dim))]


def _scatter(x: Any, dim: int, index: Any, source: Any, *, reduce: str = "set") -> Any:
    import jax.numpy as jnp

    if hasattr(source, "ndim") and source.ndim:
        source = source[tuple(map(slice, index.shape))]
    places = tuple(_all_but(index, dim))
    writer = getattr(x.at[places], {"multiply": "multiply", "add": "add"}.get(reduce, "set"))
    return writer(jnp.asarray(source, dtype=x.dtype))


def _selection(indices: Sequence[Any]) -> tuple[Any, ...]:
    if any(index is not None and str(index.dtype) in ("bool", "uint8") for index in indices):
        message = "The shape that a mask selects depends on the data"
        raise NotImplementedError(message)
    return tuple(slice(None) if index is None else index for index in indices)


def _index(x: Any, indices: Sequence[Any]) -> Any:
    return x[_selection(indices)]


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
    place = x.at[_selection(indices)]
    return place.add(values) if accumulate else place.set(values)


def _index_add(x: Any, dim: int, index: Any, source: Any, *, alpha: Any = 1) -> Any:
    place = (slice(None),) * (dim % x.ndim) + (index.reshape(-1),)
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
