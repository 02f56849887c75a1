"""NumPy's arrays and numbers in captured code.

NumPy itself computes with them, between two graphs. A number is what Python's own would be to a
tensor (``scores / np.sqrt(width)``): the graph has its value, on which there is a guard.
"""

import operator
import types
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from torch._dynamo.bytecode_transformation import create_call_function
from torch._dynamo.guards import GuardBuilder, install_guard
from torch._dynamo.symbolic_convert import InstructionTranslator
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.misc import NumpyVariable

from dynamo_ext.capture.torch_private.patches.registry import Traced, end_graph, wrappers
from dynamo_ext.capture.torch_private.patches.values import PythonsOwn

_NUMBERS = (np.float16, np.float32, np.float64, np.int8, np.int16, np.int32, np.int64)
"""With a tensor, on either side, these give what Python's own number of that value gives."""

_PYTHONS: tuple[type, ...] = (bool, int, float)
if hasattr(PythonsOwn, "_vectorcall_maybe"):
    # From torch 2.13 on, the other operand's method is called next.
    _PYTHONS += (types.NotImplementedType,)

_numbers = Traced()


@wrappers.append
def numpy_value(_upstream: Callable[..., Any], self: Any, value: Any) -> Any:
    """Where NumPy is not traced, upstream takes an array for a constant, and changes it.

    It takes a NumPy number for a tensor: results are then arrays where NumPy gives numbers, and
    float64 where torch gives float32.
    """
    if isinstance(value, np.ndarray | np.generic):
        self.install_guards(GuardBuilder.TYPE_MATCH)
        return _NumpyValue(value, source=self.source)
    if isinstance(value, np.ufunc) and getattr(np, value.__name__, None) is value:
        self.install_guards(GuardBuilder.ID_MATCH)
        return _NumpyFunction(value, source=self.source)
    return None


class _NumpyValue(PythonsOwn):
    """An array, or a number. Without a source it is a number that was computed while tracing."""

    def number(self) -> Any:
        """Its value, for a graph to rely on; ``None`` where none can."""
        value = self.value
        if self.source is not None:
            # By `==` NaN is not itself, and one zero is the other.
            known = type(value) in _NUMBERS and value == value and value != 0  # noqa: PLR0124
            root = InstructionTranslator.current_tx().output.root_tx
            if not known or _numbers.varies(root.f_code, self.source.name, value):
                return None
            install_guard(self.source.make_guard(GuardBuilder.EQUALS_MATCH))
        return value

    def as_proxy(self) -> Any:
        """Python's number where it meets a tensor; `torch.tensor` of a number has NumPy's dtype."""
        tx = InstructionTranslator.current_tx().output.current_tx
        operator = tx.current_instruction.opname.startswith(("BINARY_", "INPLACE_", "COMPARE_"))
        value = self.number() if operator else None
        return super().as_proxy() if value is None else value.item()

    def call_method(self, tx: Any, name: str, args: Any, kwargs: Any) -> Any:
        """An operator's method is computed of numbers, and ends the graph otherwise."""
        method = getattr(type(self.value), name, None)
        if not isinstance(method, types.WrapperDescriptorType):
            return super().call_method(tx, name, args, kwargs)
        result = _computed(method, [self, *args])
        if result is None:
            # Upstream looks up the operator for the method, and the method for the operator.
            end_graph(
                "attempted to trace numpy function with config.trace_numpy=False",
                f"{type(self.value).__qualname__}.{name}",
                "Its operands are not all numbers that the graph knows.",
            )
        return result

    def _vectorcall_maybe(self, tx: Any, name: str, args: Any) -> Any:
        # How torch 2.13 and later call a method of two operands.
        return self.call_method(tx, name, args, {})

    _vectorcall_method = call_method  # how torch 2.14 and later call others

    def richcompare_impl(self, tx: Any, other: Any, op: str) -> Any:
        """Compare Python's number with a tensor; leave it to Python with anything else."""
        value = self.number() if other.is_tensor() else None
        if value is None:
            return super().richcompare_impl(tx, other, op)
        compare = VariableTracker.build(tx, getattr(operator, op.strip("_")))
        return compare.call_function(tx, [ConstantVariable.create(value.item()), other], {})

    tp_richcompare_impl = richcompare_impl  # its name from torch 2.14 on

    def reconstruct(self, codegen: Any) -> None:
        """Have Python make it."""
        kind = type(self.value).__name__
        codegen.add_push_null(lambda: codegen.load_import_from("numpy", kind))
        value: Any = self.value
        codegen(ConstantVariable.create(value.item()))
        codegen.extend_output(create_call_function(1, False))  # noqa: FBT003


class _NumpyFunction(NumpyVariable):
    """A ufunc of NumPy's own, such as ``np.sqrt``: it does nothing but compute."""

    def call_function(self, tx: Any, args: Any, kwargs: Any) -> Any:
        result = None if kwargs else _computed(self.value, args)
        return super().call_function(tx, args, kwargs) if result is None else result


def _computed(function: Callable[..., Any], args: Sequence[VariableTracker]) -> Any:
    """A function's result where all arguments are known numbers; ``None`` otherwise."""
    values = [_number(arg) for arg in args]
    if None in values:
        return None
    try:
        # NumPy would warn at each call, and a graph is traced once.
        with np.errstate(all="raise"):
            result = function(*values)
    except (ArithmeticError, TypeError, ValueError):
        return None
    if type(result) in _PYTHONS:
        return ConstantVariable.create(result)
    return _NumpyValue(result) if type(result) in _NUMBERS else None


def _number(arg: VariableTracker) -> Any:
    arg = arg.realize()
    if isinstance(arg, _NumpyValue):
        return arg.number()
    known = arg.is_python_constant() and type(arg.as_python_constant()) in (int, float)
    return arg.as_python_constant() if known else None
