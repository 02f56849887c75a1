"""What backends have in common that are given partitions as ONNX."""

import functools
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch

from dynamo_ext.backends.engines.onnx import torch_private
from dynamo_ext.backends.support import extremes, ties
from dynamo_ext.backends.support.single_op import operator_name
from dynamo_ext.backends.support.tried_backend import TriedBackend
from dynamo_ext.backends.torch_private.decompositions import (
    BACKWARD,
    Decompositions,
    attention_decomposition,
)
from dynamo_ext.errors import one_line

_NOISE = re.compile(r"^((\[ONNXRuntimeError\] : )?\d+ : \w+ : |(\{\{|Stack trace|in ).*)")
"""ONNX Runtime's codes; TensorFlow's markers."""

_REGISTERED = "operators of torch.onnx"


def _product(matrix: Any, vector: Any) -> Any:
    # ONNX Runtime fuses a transposition wrongly into matrix by vector.
    return torch.mm(matrix, vector.unsqueeze(1)).squeeze(1)


def _power(x: Any, exponent: Any) -> Any:
    # The power of a half is the root to torch: of -inf it is NaN and not inf.
    if exponent == 0.5 and x.is_floating_point():  # noqa: PLR2004 - a half
        return torch.sqrt(x)
    return NotImplemented


_OWN: Decompositions = {
    torch.ops.aten.mv.default: _product,
    torch.ops.aten.pow.Tensor_Scalar: _power,
    torch.ops.aten.clamp_min.default: torch.ops.aten.clamp.default,
    torch.ops.aten.clamp_max.default: lambda x, most: torch.ops.aten.clamp.default(x, None, most),
}


class ThroughOnnx(TriedBackend):
    """Partitions by way of torch.onnx's table of operators."""

    cut_up: Sequence[str] = (
        # torch.onnx's batch norm gives the running variance without Bessel's correction.
        *BACKWARD,
        # It takes the logarithm of a sum of exponentials, which overflow.
        "logaddexp.default",
        "logaddexp2.default",
        # It multiplies what a beta of zero must not let count: uninitialised memory, often.
        "baddbmm.default",
        # Operators, most of them of backward graphs, that torch.onnx does not know.
        "embedding_dense_backward.default",
        "squeeze.dims",
        "var.correction",
        "var_mean.correction",
    )
    own = ties.DECOMPOSITIONS | extremes.DECOMPOSITIONS | _OWN

    def decompositions(self, table: Decompositions, *, training: bool) -> Decompositions:
        """Keep what the exporter knows, and decompose what it gets wrong.

        Attention stays one operator for training.
        """
        # To make the exporter's table takes most of a second.
        if _REGISTERED not in self._answers.known:
            names = map(str, torch_private.onnx_registry().functions)
            self._answers.learn(_REGISTERED, "\n".join(names))
        registered = set(self._answers.known[_REGISTERED].splitlines())
        kept = {op: cut for op, cut in table.items() if operator_name(op) not in registered}
        if not training:
            kept |= _split_attention()
        return super().decompositions(kept, training=training)

    def quiet(self) -> AbstractContextManager[None]:
        """The exporter prints, logs and warns."""
        return torch_private.quiet_exporter()

    def error_summary(self, error: BaseException) -> str:
        """The message of the exporter, or of the engine behind it, in one line."""
        while error.__cause__ is not None:
            error = error.__cause__
        return one_line(error, _NOISE)


@functools.cache
def _split_attention() -> Decompositions:
    """Attention decomposed where it has a mask, or fewer keys' heads than queries'.

    Whole, a row masked throughout would become NaN, and shared heads do not load.
    """

    def decide(cut: Callable[..., Any]) -> Callable[..., Any]:
        def attention(q: Any, k: Any, *args: Any, attn_mask: Any = None, **kwargs: Any) -> Any:
            if attn_mask is None and q.shape[1] == k.shape[1]:
                return NotImplemented
            return cut(q, k, *args, attn_mask=attn_mask, **kwargs)

        return attention

    return {op: decide(cut) for op, cut in attention_decomposition().items()}
