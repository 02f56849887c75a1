"""Torch's own layers and transforms, where tracing them as they are loses a graph or a result."""

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo as dynamo
from torch._dynamo.eval_frame import OptimizedModule
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.functions import BaseUserFunctionVariable, NestedUserFunctionVariable
from torch._functorch import apis
from torch.nn.modules import transformer

from dynamo_ext.capture.torch_private.patches.registry import (
    RECURRENT,
    end_graph,
    inliners,
    wrappers,
)


@inliners.append
def inline(
    upstream: Callable[..., Any], tx: Any, function: Any, args: Any, *rest: Any, **options: Any
) -> Any:
    """Answer what torch's transformers ask of a mask; refuse recurrent layers; keep names."""
    called = getattr(function, "fn", None)
    # Without `is_causal`, nn.TransformerEncoder looks through its mask to find out, and upstream
    # then captures nothing of it. To torch's own layers, which are given the mask as well, the
    # answer is a hint for attention's kernels alone.
    if called is transformer._detect_is_causal_mask and _gives_a_hint(tx, args):
        mask, _, size = args
        no = VariableTracker.build(tx, False)  # noqa: FBT003 - its own parameter is positional
        return upstream(tx, function, [mask, no, size], *rest, **options)
    if called in _RECURRENT:
        _refuse_steps(args[0].realize())
    if called not in _WRAPPING:
        return None
    tracer = upstream(tx, function, args, *rest, **options)
    trace = tracer.inline_call_
    tracer.inline_call_ = lambda: _named(tx, trace(), args)
    return tracer


def _named(tx: Any, made: Any, args: Any) -> Any:
    """Give what a transform makes the name of its function, which torch leaves out in tracing."""
    if not isinstance(made, NestedUserFunctionVariable):
        return made
    inner = args[0].realize()
    if not isinstance(inner, BaseUserFunctionVariable) or getattr(inner, "wrapped_fn", None):
        made.wrapped_fn = inner  # named where it is kept
        return made
    wraps = VariableTracker.build(tx, _WRAPS)
    return wraps.call_function(tx, args[:1], {}).call_function(tx, [made], {})


# Until torch 2.12 the transforms use `functools.wraps` itself.
_WRAPS = getattr(apis, "_wraps_without_dynamo_attrs", functools.wraps)

_WRAPPING = (torch.vmap, torch.func.grad, torch.func.grad_and_value)


_STACKS = {
    torch.nn.TransformerEncoder.forward.__code__: torch.nn.TransformerEncoderLayer,
    torch.nn.TransformerDecoder.forward.__code__: torch.nn.TransformerDecoderLayer,
}


def _gives_a_hint(tx: Any, args: Any) -> bool:
    """Whether torch's own stack of its own layers asks, of a mask that is not learned."""
    own = _STACKS.get(tx.f_code)
    if own is None:
        return False
    mask, is_causal, _ = args
    stack = getattr(tx.symbolic_locals["self"], "value", None)
    return (
        isinstance(stack, torch.nn.TransformerEncoder | torch.nn.TransformerDecoder)
        and all(type(layer) is own for layer in stack.layers)
        and is_causal.is_python_constant()
        and is_causal.as_python_constant() is None
        and not getattr(mask, "requires_grad", False)
    )


_RECURRENT = (torch.nn.LSTM.forward, torch.nn.GRU.forward, torch.nn.RNN.forward)


def _refuse_steps(layers: Any) -> None:
    """End the graph before a recurrent layer of which torch would trace every step."""
    module: Any = getattr(layers, "value", None)
    lstm = isinstance(module, torch.nn.LSTM) and not torch.is_grad_enabled()
    # AOTAutograd leaves out the dropout between the layers.
    lstm = lstm and not (module.training and module.dropout)
    if not dynamo.config.allow_rnn and not (lstm and _is_cut_into_layers(module)):
        why = "Torch would trace every step, and so know one length only."
        end_graph(RECURRENT, type(module).__name__, why)


def _is_cut_into_layers(layers: torch.nn.LSTM) -> bool:
    """Whether AOTAutograd has an operation for each layer, and this CPU a kernel for it.

    ``select_one_layer_lstm_function`` does not ask for the kernel, which bfloat16 may lack.
    """
    kinds = {torch.float32}
    if torch.ops.mkldnn._is_mkldnn_bf16_supported():
        kinds.add(torch.bfloat16)
    return (
        not layers.proj_size
        and bool(torch.backends.mkldnn.enabled)
        and all(
            weight.device.type == "cpu" and weight.dtype in kinds for weight in layers.parameters()
        )
    )


@wrappers.append
def wrap(upstream: Callable[..., Any], self: Any, value: Any) -> Any:
    """Take a recurrent layer as a module: its call ends the graph, and upstream gives up all."""
    module = value._orig_mod if isinstance(value, OptimizedModule) else value
    if not isinstance(module, torch.nn.RNNBase):
        return None
    with dynamo.config.patch(allow_rnn=True):
        return upstream(self, value)
