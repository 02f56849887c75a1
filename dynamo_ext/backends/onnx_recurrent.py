"""Recurrent layers as ONNX's operators, and a word for each call that these would falsify.

A layer of an LSTM comes as AOTAutograd's ``aten::mkldnn_rnn_layer``, whole stacks as the operators
of ``recurrent``. ONNX Runtime computes them faster than torch, but makes numbers of NaN and
infinity. So a model that has one says, by one more output, whether anything that is read there is
not finite, and then the call is eager's.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

FLAG = "not_finite"
"""The name of the output that says so: one boolean, the last of the model's outputs."""

_GATES = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN": (0,)}
"""Where ONNX's gates stand in torch's weights.

torch has input, forget, cell, output, and reset, update, new; ONNX has input, output, forget,
cell, and update, reset, hidden.
"""

_ONEDNN_LSTM = 2
"""oneDNN's number for the kind of a recurrent layer (``ideep::rnn_kind``)."""

_SEQUENCE_LENGTHS = 4
"""The only one of the operators' inputs that is not floating-point."""


class NotFiniteError(RuntimeError):
    """What a recurrent layer reads holds what ONNX Runtime would make numbers of."""

    def __init__(self) -> None:
        super().__init__(
            "A recurrent layer reads NaN or infinity, of which ONNX Runtime makes numbers."
        )


def functions() -> Mapping[Any, Callable[..., Any]]:
    """Operators, and what writes their ONNX form, for torch.onnx's table."""
    import torch

    from dynamo_ext.backends import recurrent

    whole = recurrent.operators()
    return {
        torch.ops.aten.mkldnn_rnn_layer.default: _layer,
        whole[torch.gru]: functools.partial(_stack, "GRU"),
        whole[torch.lstm]: functools.partial(_stack, "LSTM"),
        # With ReLU, finite inputs may well overflow under way, which nothing would tell.
        whole[torch.rnn_tanh]: functools.partial(_stack, "RNN"),
    }


def _layer(  # noqa: PLR0913, PLR0917 - the operator's own signature
    inputs: Any,
    weight_ih: Any,
    weight_hh: Any,
    bias_ih: Any,
    bias_hh: Any,
    hidden: Any,
    cell: Any,
    reverse: Any,
    batch_sizes: Any,
    mode: Any,
    hidden_size: Any,
    num_layers: Any,
    has_biases: Any,
    bidirectional: Any,
    batch_first: Any,
    train: Any,
) -> Any:
    """``aten::mkldnn_rnn_layer``: states ``[1, batch, width]``, biases of any shape without any."""
    plain = mode == _ONEDNN_LSTM and num_layers == 1
    if not plain or batch_sizes or bidirectional or batch_first or train:
        message = "Only one layer of an LSTM at a time has a conversion."
        raise NotImplementedError(message)
    op = _opset()
    params = [weight_ih, weight_hh, *((bias_ih, bias_hh) if has_biases else ())]
    steps, *states = _node(
        "LSTM", inputs, [hidden, cell], [params], hidden_size, "reverse" if reverse else "forward"
    )
    # oneDNN's workspace has no elements in inference.
    workspace = op.Cast(op.Slice(hidden, [0], [0], [0]), to=2)
    return op.Squeeze(steps, [1]), *states, workspace


def _stack(  # noqa: PLR0913, PLR0917 - the operators' own signature
    kind: str,
    inputs: Any,
    states: Any,
    params: Sequence[Any],
    has_biases: Any,
    num_layers: Any,
    dropout: Any,
    train: Any,
    bidirectional: Any,
    batch_first: Any,
) -> Any:
    """``gru``, ``lstm`` and ``rnn_tanh``: every layer, in one direction or both."""
    op = _opset()
    if train and dropout:
        message = "Dropout between layers draws numbers, which ONNX Runtime does otherwise."
        raise NotImplementedError(message)
    held = list(states) if kind == "LSTM" else [states]
    widths = {each.shape[-1] for each in held}
    if len(widths) > 1:
        message = "ONNX's LSTM has no projections."
        raise NotImplementedError(message)
    ways, each = (2 if bidirectional else 1), (4 if has_biases else 2)
    weights = [list(params[at : at + each]) for at in range(0, len(params), each)]
    steps = op.Transpose(inputs, perm=[1, 0, 2]) if batch_first else inputs
    direction = "bidirectional" if bidirectional else "forward"
    last: list[list[Any]] = [[] for _ in held]
    for layer in range(num_layers):
        start, end = layer * ways, (layer + 1) * ways
        own = [op.Slice(state, [start], [end], [0]) for state in held]
        made, *states = _node(kind, steps, own, weights[start:end], widths.copy().pop(), direction)
        # [steps, directions, batch, width] to [steps, batch, directions * width]
        steps = op.Reshape(op.Transpose(made, perm=[0, 2, 1, 3]), [0, 0, -1])
        for kept, state in zip(last, states, strict=True):
            kept.append(state)
    steps = op.Transpose(steps, perm=[1, 0, 2]) if batch_first else steps
    return steps, *(op.Concat(*kept, axis=0) for kept in last)


def _node(  # noqa: PLR0913, PLR0917 - what the operators have in common
    kind: str,
    inputs: Any,
    states: Sequence[Any],
    weights: Sequence[Sequence[Any]],
    width: int,
    direction: str,
) -> Any:
    """One of ONNX's recurrent operators: all its steps, and the states after the last.

    Parameters
    ----------
    kind
        Its name.
    inputs
        Of shape ``[steps, batch, features]``.
    states
        Hidden, and an LSTM's cell: ``[directions, batch, width]``.
    weights
        For each direction ``weight_ih``, ``weight_hh``, and the biases if there are any.
    width, direction
        Its attributes.
    """
    op = _opset()

    def stacked(parts: Sequence[Any]) -> Any:
        each = [op.Unsqueeze(part, [0]) for part in parts]
        return op.Concat(*each, axis=0) if len(each) > 1 else each[0]

    def gates(weight: Any) -> Any:
        order = _GATES[kind]
        if len(order) == 1:
            return weight
        parts = [op.Slice(weight, [at * width], [(at + 1) * width], [0]) for at in order]
        return op.Concat(*parts, axis=0)

    ordered = [[gates(part) for part in way] for way in weights]
    biases = None
    if len(ordered[0]) > 2:  # noqa: PLR2004 - two weights
        biases = stacked([op.Concat(way[2], way[3], axis=0) for way in ordered])
    # torch's GRU resets what the hidden weights have made, and not what they are given.
    more = {"linear_before_reset": 1} if kind == "GRU" else {}
    return getattr(op, kind)(
        inputs,
        stacked([way[0] for way in ordered]),
        stacked([way[1] for way in ordered]),
        biases,
        None,
        *states,
        direction=direction,
        hidden_size=width,
        **more,
    )


def _opset() -> Any:
    """ONNX's operators; lists of numbers become constants, which their types do not say."""
    from onnxscript.onnx_opset import opset18

    return opset18


def say_what_is_not_finite(model: Any) -> None:
    """Give a model that has recurrent layers the output ``FLAG``; others stay as they are.

    Parameters
    ----------
    model
        An ``onnx_ir.Model``, changed.
    """
    import onnx_ir

    read = {
        id(value): value
        for node in model.graph
        if node.op_type in _GATES
        for position, value in enumerate(node.inputs)
        if value is not None and position != _SEQUENCE_LENGTHS
    }
    if not read:
        return
    tape = onnx_ir.tape.Tape(model.graph)
    # A finite number less itself is zero; of all others that, and every sum with it, is NaN.
    sums = [
        tape.op("ReduceSum", [tape.op("Sub", [value, value])], {"keepdims": 0})
        for value in read.values()
    ]
    found = tape.op("IsNaN", [functools.reduce(lambda a, b: tape.op("Add", [a, b]), sums)])
    found.name, found.dtype, found.shape = FLAG, onnx_ir.DataType.BOOL, onnx_ir.Shape([])
    model.graph.outputs.append(found)
