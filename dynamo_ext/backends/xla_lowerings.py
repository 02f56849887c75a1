"""Which JAX function stands for which ATen operator: ours first, then torchax's.

torchax's table is loaded without torchax's own ``__init__``: that one renames torch's private
device and switches torch's fast path for attention off, after which ``torch.compile`` and
``fork_rng`` fail in the whole process, and on torch 2.13 it does not even finish.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import logging
import sys
import threading
import types
import warnings
from typing import TYPE_CHECKING, Any

from dynamo_ext.backends import (
    torch_private,
    xla_attention,
    xla_import,
    xla_indexing,
    xla_operators,
    xla_views,
)
from dynamo_ext.backends.single_operation import operator_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_TABLES = (xla_views.OWN, xla_indexing.OWN, xla_operators.OWN, xla_attention.OWN)
_LOADING = threading.Lock()

_CUT_UP = (
    # XLA fuses the pieces again, and torchax's own are slower or wrong.
    "_native_batch_norm_legit_functional.default",
    "_native_batch_norm_legit.no_stats",
    "native_batch_norm_backward.default",
    "native_layer_norm.default",
    "native_layer_norm_backward.default",
    "native_group_norm.default",
    "native_group_norm_backward.default",
    "_softmax_backward_data.default",
    "_log_softmax_backward_data.default",
    "elu.default",
    "gelu.default",
    "gelu_backward.default",
    "leaky_relu.default",
    "threshold_backward.default",
    "nll_loss_forward.default",
    "nll_loss_backward.default",
    "nll_loss2d_forward.default",
    "nll_loss2d_backward.default",
    "upsample_bilinear2d.vec",
    "upsample_nearest2d.vec",
)

_DENIED = {
    "aten::as_strided": "It reads memory as it lies, and XLA's lies differently.",
    "aten::adaptive_max_pool": "torchax's adaptive max-pooling is wrong.",
    "aten::_embedding_bag": "torchax's embedding_bag is wrong.",
    "aten::fake_quantize": "torchax has no fake quantisation that works.",
    "aten::_assert": "It raises where the data say so, which XLA cannot.",
    "aten::linalg_": "XLA does not raise where a matrix has no such decomposition.",
    "aten::_linalg": "XLA does not raise where a matrix has no such decomposition.",
    "aten::cholesky": "XLA does not raise where a matrix has no such decomposition.",
    "aten::lu_": "XLA does not raise where a matrix has no such decomposition.",
    "aten::triangular_solve": "XLA does not raise where a matrix has no such decomposition.",
    "aten::qr": "XLA does not raise where a matrix has no such decomposition.",
    "aten::unique": "The shape of its result depends on the data.",
    "aten::nonzero": "The shape of its result depends on the data.",
    "aten::masked_select": "The shape of its result depends on the data.",
    "aten::bincount": "The shape of its result depends on the data.",
    "aten::empty": "What it holds is anything at all, which no trial can compare.",
    "aten::new_empty": "What it holds is anything at all, which no trial can compare.",
    "aten::_local_scalar_dense": "It reads a value, which ends a graph.",
}
_DENIED |= dict.fromkeys(
    (
        "aten::gcd",
        "aten::lcm",
        "aten::special_chebyshev",
        "aten::special_hermite",
        "aten::special_laguerre",
        "aten::special_legendre",
        "aten::special_shifted",
    ),
    "torchax loops as often as the data say, which on integers may be for ever.",
)
_DENIED |= dict.fromkeys(
    ("aten::digamma", "aten::polygamma", "aten::special_zeta"),
    "XLA's digamma and polygamma lose their digits near the poles.",
)
_ALLOWED = ("aten::linalg_vector_norm",)


def denial(op: Any) -> str:
    """Why an operator is not even tried; empty where it may be."""
    name = operator_name(op)
    if name.startswith(_ALLOWED):
        return ""
    return next((why for start, why in _DENIED.items() if name.startswith(start)), "")


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep JAX and numpy from warning in a cell."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def complaint(error: BaseException) -> str:
    """An error's message in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[0] if lines else type(error).__name__
    return f"{type(error).__name__}: {text}"[:300] if lines else text


def decompositions(
    table: dict[Any, Callable[..., Any]], *, training: bool
) -> dict[Any, Callable[..., Any]]:
    """The table with more cut up: what XLA fuses again, and all of normalisation's gradients.

    Parameters
    ----------
    table
        Core ATen's decompositions.
    training
        Whether forward and backward graphs are to come. Attention stays whole in them: its
        decomposition gives wrong gradients, and this engine has a lowering for both directions.
    """
    del training
    return table | torch_private.decompositions_of(_CUT_UP)


def lowering(op: Any) -> Callable[..., Any] | None:
    """The JAX function for an overload, or ``None``.

    It takes what the operator takes: ``jax.Array`` for tensors, all else as torch has it.
    """
    name = operator_name(op)
    for own in _TABLES:
        if name in own:
            return own[name]
    found = _torchax_table()
    function = found.get(op) or found.get(getattr(op, "overloadpacket", None))
    return xla_operators.GUARDS.get(name, _as_it_is)(function) if function else None


def _as_it_is(function: Callable[..., Any]) -> Callable[..., Any]:
    return function


@functools.cache
def _torchax_table() -> dict[Any, Callable[..., Any]]:
    """ATen operators to torchax's pure JAX functions."""
    xla_import.import_jax()
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
    try:
        yield
    finally:
        logging.disable(before)
        for name in [m for m in sys.modules if m.partition(".")[0] == "torchax"]:
            del sys.modules[name]
