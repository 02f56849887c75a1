"""An ``onnx_ir`` model, operation by operation, as TensorFlow's.

The table is filled by four files: ``tf_arithmetic``, ``tf_norms``, ``tf_shapes``, ``tf_windows``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamo_ext.backends import tf_arithmetic, tf_norms, tf_shapes, tf_windows
from dynamo_ext.backends.tf_call import TABLE, Call, ConversionError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["TABLE", "evaluate", "missing"]

_FILLED_BY = (tf_arithmetic, tf_norms, tf_shapes, tf_windows)
_STANDARD = ("", "ai.onnx")


def missing(model: Any) -> list[str]:
    """The kinds of a model's operations that the table has not."""
    kinds = {
        node.op_type if node.domain in _STANDARD else f"{node.domain}::{node.op_type}"
        for node in model.graph
    }
    return sorted(kinds - TABLE.keys())


def evaluate(
    tf: Any, model: Any, constants: Mapping[str, Any], inputs: Sequence[Any]
) -> tuple[list[Any], list[Any]]:
    """A model's outputs for its inputs, while TensorFlow traces.

    Parameters
    ----------
    tf
        The ``tensorflow`` module.
    model
        An ``onnx_ir.Model`` whose shapes are fixed.
    constants
        Its initializers by name: numpy arrays and TensorFlow tensors.
    inputs
        TensorFlow tensors, in the model's order.

    Returns
    -------
    tuple
        The outputs in order, and the alarms: boolean scalars, true where torch would have raised.

    Raises
    ------
    ConversionError
        For what the table has not, or has not in this form.
    """
    unknown = missing(model)
    if unknown:
        message = f"No TensorFlow operation is known for ONNX's {', '.join(unknown)}."
        raise ConversionError(message)
    values: dict[Any, Any] = {None: None}
    for value in model.graph.initializers.values():
        values[value] = constants[value.name]
    values.update(zip(model.graph.inputs, inputs, strict=True))
    alarms: list[Any] = []
    for node in model.graph:
        call = Call(
            tf,
            node.op_type,
            [values[value] for value in node.inputs],
            {name: _plain(attribute.value) for name, attribute in node.attributes.items()},
            [bool(value.uses()) or value.is_graph_output() for value in node.outputs],
            alarms,
        )
        found = TABLE[node.op_type](call)
        several = found if isinstance(found, (list, tuple)) else [found]
        values.update(zip(node.outputs, several, strict=False))
    return [tf.convert_to_tensor(values[value]) for value in model.graph.outputs], alarms


def _plain(value: Any) -> Any:
    return value.numpy() if hasattr(value, "numpy") and hasattr(value, "dtype") else value
