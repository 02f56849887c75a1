"""Operators that read or write where an index says.

XLA clamps an index that is out of range, or drops what it would write; torch raises. The check is
in the partition itself (``data_checks``).
"""

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
    "aten::index_add": _index_add,
    "aten::index.Tensor": _index,
    "aten::index_put": _index_put,
}
