"""Which JAX function stands for which ATen operator: ours first, then torchax's.

torchax's table is loaded without torchax's own ``__init__``: that one renames torch's private
device and switches torch's fast path for attention off, after which ``torch.compile`` and
``fork_rng`` fail in the whole process, and on torch 2.13 it does not even finish.
"""

import contextlib
import functools
import importlib.util
import logging
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

from dynamo_ext.backends.engines.xla.ops import attention, indexing, overrides
from dynamo_ext.backends.support.single_op import operator_name
from dynamo_ext.backends.torch_private import decompositions as decompositions_private
from dynamo_ext.numerics import rng_state

_OWN = indexing.OWN | overrides.OWN | attention.OWN
_LOADING = threading.Lock()

DECOMPOSED = (
    *decompositions_private.BACKWARD,
    # XLA fuses the pieces again, and torchax's own are slower or wrong.
    "native_layer_norm.default",
    "native_group_norm.default",
    "_native_batch_norm_legit.default",
    "_native_batch_norm_legit_no_training.default",
    "elu.default",
    "gelu.default",
    "leaky_relu.default",
    "upsample_bilinear2d.vec",
    "upsample_nearest2d.vec",
)

_DENIED = {
    "aten::as_strided": "It reads memory as it lies, and XLA's lies differently.",
    "aten::_embedding_bag": "torchax's embedding_bag is wrong.",
    "aten::_assert": "It raises where the data say so, which XLA cannot.",
    "aten::_local_scalar_dense": "It reads a value, which ends a graph.",
}
_DENIED_GROUPS = {
    "XLA does not raise where a matrix has no such decomposition.": (
        "linalg_", "_linalg", "cholesky", "lu_", "triangular_solve",
    ),
    "The shape of its result depends on the data.": (
        "unique", "nonzero", "masked_select", "bincount",
    ),
    "Its result is uninitialised memory, which no trial can compare.": ("empty", "new_empty"),
    "torchax loops as often as the data say, which on integers may be for ever.": (
        "gcd", "lcm", "special_chebyshev", "special_hermite", "special_laguerre",
    ),
    "XLA would not raise where an index is out of range.": (
        "embedding_", "index_copy", "masked_scatter", "put", "repeat_interleave", "scatter_reduce",
    ),
    "XLA's digamma and polygamma lose their digits near the poles.": (
        "digamma", "polygamma", "special_zeta",
    ),
}  # fmt: skip
for _reason, _names in _DENIED_GROUPS.items():
    _DENIED |= {f"aten::{name}": _reason for name in _names}
_ALLOWED = ("aten::linalg_vector_norm",)
_GONE = ("cholesky", "qr")
"""Operators that torch 2.14 has no more, and for which torchax has functions all the same."""


@functools.cache
def import_jax() -> None:
    """Import JAX with the user's random numbers as they were, before anything else here does."""
    if "jax" not in sys.modules:
        with rng_state.host_kept():
            import jax  # noqa: F401


def denied_reason(op: Any) -> str:
    """Why an operator is not even tried; empty where it may be."""
    name = operator_name(op)
    if name.startswith(_ALLOWED):
        return ""
    return next((why for start, why in _DENIED.items() if name.startswith(start)), "")


def lowering(op: Any) -> Callable[..., Any] | None:
    """The JAX function for an overload, or ``None``.

    It takes what the operator takes: ``jax.Array`` for tensors, all else as torch has it.
    """
    name = operator_name(op)
    if name in _OWN:
        return _OWN[name]
    found = _torchax_table()
    return found.get(op) or found.get(getattr(op, "overloadpacket", None))


@functools.cache
def _torchax_table() -> dict[Any, Callable[..., Any]]:
    """ATen operators to torchax's pure JAX functions."""
    import_jax()
    with _LOADING, _without_side_effects():
        from torchax.ops import jaten, ops_registry

        del jaten
        return {
            op: entry.func
            for op, entry in ops_registry.all_aten_ops.items()
            if entry.is_jax_function and not entry.needs_env and not entry.is_view_op
        }


@contextlib.contextmanager
def _without_side_effects() -> Iterator[None]:
    """Import parts of torchax without its ``__init__``, and leave no trace in ``sys.modules``.

    A user who imports torchax, before or afterwards, gets the whole of it.
    """
    if "torchax" in sys.modules:
        yield
        return
    spec = importlib.util.find_spec("torchax")
    if spec is None:
        message = "torchax is not installed"
        raise ModuleNotFoundError(message, name="torchax")
    hollow = types.ModuleType("torchax")
    hollow.__path__ = list(spec.submodule_search_locations or ())
    # The table of autocast policies names overloads that torch 2.13 has not; lowerings need none.
    amp = types.ModuleType("torchax.amp")
    hollow.amp = amp  # type: ignore[attr-defined]
    sys.modules.update({"torchax": hollow, "torchax.amp": amp})
    root = logging.getLogger()
    before = root.manager.disable
    logging.disable(logging.WARNING)
    gone = [name for name in _GONE if not hasattr(torch.ops.aten, name)]
    for name in gone:
        setattr(torch.ops.aten, name, name)
    try:
        yield
    finally:
        for name in gone:
            delattr(torch.ops.aten, name)
        logging.disable(before)
        for name in [m for m in sys.modules if m.partition(".")[0] == "torchax"]:
            del sys.modules[name]
