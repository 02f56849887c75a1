"""What Dynamo's tracing does differently while a frame of ours compiles.

Every patch of torch is here, and holds only for as long as ``traced_our_way`` does, so that a
user's own ``torch.compile`` elsewhere is untouched. Checked, as all private interfaces, on the
versions of ``torch_private``.
"""

from __future__ import annotations

import contextlib
import inspect
import types
from collections import deque
from typing import TYPE_CHECKING, Any, ClassVar

import torch
import torch._dynamo as dynamo
from torch._dynamo import convert_frame, symbolic_convert
from torch._dynamo.exc import unimplemented
from torch._dynamo.guards import GuardBuilder, install_guard
from torch._dynamo.output_graph import OutputGraph
from torch._dynamo.source import AttrSource, GlobalSource, LocalSource, is_from_local_source
from torch._dynamo.symbolic_convert import (
    InliningInstructionTranslator,
    InstructionTranslator,
    InstructionTranslatorBase,
)
from torch._dynamo.variables import builder
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.builtin import BuiltinVariable
from torch._dynamo.variables.functions import (
    BoundBuiltinMethodVariable,
    LocalGeneratorObjectVariable,
    UserFunctionVariable,
)
from torch._dynamo.variables.lazy import (
    LazyConstantVariable,
    LazySymNodeFormatString,
    LazyVariableTracker,
)
from torch._dynamo.variables.lists import ListVariable
from torch._dynamo.variables.tensor import SymNodeVariable
from torch._dynamo.variables.torch import TorchInGraphFunctionVariable
from torch.nn.modules import transformer

from dynamo_ext.backends import recurrent
from dynamo_ext.capture import torch_lists, torch_numbers

if TYPE_CHECKING:
    from collections.abc import Iterator


class _Upstream:
    """Torch's own."""

    run = InstructionTranslatorBase.run
    load_global = InstructionTranslatorBase._load_global
    load_global_inline = InliningInstructionTranslator._load_global
    check_inlineable = staticmethod(InliningInstructionTranslator.check_inlineable)
    specialize_int = staticmethod(builder.is_int_specialization_case)
    stack_values = OutputGraph._get_stack_values_to_restore
    wrap = builder.VariableBuilder._wrap
    lazy_constant = staticmethod(LazyConstantVariable.create)
    wrap_module = builder.VariableBuilder.wrap_module
    format_value = InstructionTranslatorBase._format_value
    call_builtin = BuiltinVariable.call_function
    has_tensor = staticmethod(convert_frame.has_tensor_in_frame)
    generator_fields = LocalGeneratorObjectVariable._nonvar_fields
    call_function = UserFunctionVariable.call_function
    is_forbidden = staticmethod(symbolic_convert.is_forbidden)
    call_torch = TorchInGraphFunctionVariable.call_function


class _Tracing:
    """How many blocks hold the patches, and what was traced in them."""

    depth = 0
    traced: ClassVar[set[tuple[str, str]]] = set()


def take_traced() -> frozenset[tuple[str, str]]:
    """File and qualified name of every function traced since the last call of this function.

    Inlined functions count, and those whose tracing was given up.
    """
    found = frozenset(_Tracing.traced)
    _Tracing.traced.clear()
    return found


def _run(self: Any) -> Any:
    _Tracing.traced.add((self.f_code.co_filename, self.f_code.co_qualname))
    return _Upstream.run(self)


# A cell's namespace is traced as a function's locals are.


def _load_global(self: Any, inst: Any) -> None:
    # Upstream asks f_globals first, so a name that the frame itself has just stored and that did
    # not exist before is "not found in builtins", and every statement that reads it breaks.
    if inst.argval in self.symbolic_globals:
        stored = self.output.side_effects[self.symbolic_globals[inst.argval]]
        self.push(self.output.side_effects.load_global(stored, inst.argval))
        return
    _Upstream.load_global(self, inst)


def _load_global_inline(self: Any, inst: Any) -> None:
    if self.output.global_scope is self.f_globals:
        _load_global(self, inst)
    else:
        _Upstream.load_global_inline(self, inst)


def _has_tensor(frame: Any) -> bool:
    # Upstream looks at arguments alone, and leaves out without a word a function that takes none
    # and works on the notebook's model, and a method of a plain object that holds one.
    if _Upstream.has_tensor(frame):
        return True
    if frame.f_code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        return False
    return any(
        isinstance(held.get(name), (torch.Tensor, torch.nn.Module))
        for held in (frame.f_globals, *map(_attributes, frame.f_locals.values()))
        for name in frame.f_code.co_names
    )


def _attributes(value: Any) -> dict[str, Any]:
    # Neither a property nor `__getattr__` of the user's is to run for this.
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return found if type(found) is dict else {}


def _specialize_int(value: Any, source: Any) -> bool:
    # Upstream takes global integers for constants; in a notebook they are the user's variables,
    # and `step = step + 1` would compile anew at each run of the cell.
    return type(source) is not GlobalSource and bool(_Upstream.specialize_int(value, source))


# Numbers and methods that come from before a graph break.


def _stack_values(self: Any, tx: Any, stack_pops: int) -> Any:
    # Upstream guards on the value of a Python number that waits on the stack while a graph break
    # passes, as in `total += loss.item()`, which then compiles anew each time.
    below = tx.stack[: len(tx.stack) - stack_pops]
    if all(type.__instancecheck__(LazyConstantVariable, value) for value in below):
        stack_pops = len(tx.stack)
    return _Upstream.stack_values(self, tx, stack_pops)


def _lazy_constant(value: Any, source: Any, **options: Any) -> Any:
    if type(value) is float and is_from_local_source(source):
        root = InstructionTranslator.current_tx().output.root_tx
        if torch_numbers.are_carried(root.f_code):
            install_guard(source.make_guard(GuardBuilder.TYPE_MATCH))
            return torch_numbers.CarriedNumber(float, source=source)
    return _Upstream.lazy_constant(value, source, **options)


_CONTAINERS = (list, dict, set, deque)


def _wrap(self: Any, value: Any) -> Any:
    # Of `losses.append(loss.item())` a bound method waits while the graph breaks. Upstream guards
    # on that very object, which is another one at each call; what it is bound to will do.
    if (
        type(value) is types.BuiltinMethodType
        and type(value.__self__) in _CONTAINERS
        and isinstance(self.source, LocalSource)
        and self.source.local_name.startswith("___stack")
    ):
        self.install_guards(GuardBuilder.TYPE_MATCH)
        # `(xs.append if good else xs.remove)(x.item())` has one or the other there.
        install_guard(AttrSource(self.source, "__name__").make_guard(GuardBuilder.EQUALS_MATCH))
        bound = VariableTracker.build(self.tx, value.__self__, AttrSource(self.source, "__self__"))
        descriptor = getattr(type(value.__self__), value.__name__)
        return BoundBuiltinMethodVariable(descriptor, bound, source=self.source)
    if type(value) is list and torch_lists.is_growing(self.tx.output.root_tx.f_code, self.source):
        self.install_guards(GuardBuilder.TYPE_MATCH)
        return torch_lists.CarriedList(source=self.source)
    return _Upstream.wrap(self, value)


# Numbers that are written into a text.


class _FormattedSymbol(LazySymNodeFormatString):
    """A symbolic number in an f-string, told when the text is asked for."""

    def __repr__(self) -> str:
        # Upstream formats the text of the number: `f"{n:03}"` of 15 is "150", `:.2f` raises.
        return str.format(self.fmt_var.as_python_constant(), self.sym_node_var.evaluate_expr())


def _format_value(self: Any, fmt_spec: Any, flags: int) -> None:
    # With `!r`, `!s` or `!a` it is the number's text that is formatted, as upstream does.
    if flags & 0x03 or not isinstance(self.stack[-1], SymNodeVariable):
        _Upstream.format_value(self, fmt_spec, flags)
        return
    symbol = self.pop()
    text = _FormattedSymbol(symbol, fmt_spec)
    self.push(LazyVariableTracker.create(text, source=symbol.source, tx=self))


def _call_builtin(self: Any, tx: Any, args: Any, kwargs: Any) -> Any:
    if self.fn is not format or kwargs or len(args) not in (1, 2):
        return _Upstream.call_builtin(self, tx, args, kwargs)
    # Upstream takes `format(15, "03")` for `"15".format("03")`, which is "15".
    value, *spec = args
    tx.push(value)
    _format_value(tx, spec[0] if spec else VariableTracker.build(tx, ""), 0)
    return tx.pop()


# What torch reads, and need not.


def _call_function(self: Any, tx: Any, args: Any, kwargs: Any) -> Any:
    # Without `is_causal`, nn.TransformerEncoder looks through its mask to find out, and upstream
    # then captures nothing of it. To torch's own layers, which are given the mask as well, the
    # answer is a hint for attention's kernels alone.
    if self.fn is transformer._detect_is_causal_mask and _gives_a_hint(tx, args):
        return VariableTracker.build(tx, False)  # noqa: FBT003 - its own parameter is positional
    return _Upstream.call_function(self, tx, args, kwargs)


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


# What torch leaves to eager by default.


def _wrap_module(self: Any, value: Any) -> Any:
    recurrent_layers = (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN)
    if not isinstance(value, recurrent_layers) or not _stays_whole(value):
        return _Upstream.wrap_module(self, value)
    with dynamo.config.patch(allow_rnn=True):
        return _Upstream.wrap_module(self, value)


def _stays_whole(layers: torch.nn.RNNBase) -> bool:
    """Whether it becomes an operation, or one for each layer, and not some for each step."""
    if torch.is_grad_enabled():
        return False
    return _is_cut_into_layers(layers) or not (layers.training and layers.dropout)


def _is_cut_into_layers(layers: torch.nn.RNNBase) -> bool:
    """Whether AOTAutograd has one operation for each layer, and this CPU a kernel for it.

    ``torch._decomp.decompositions.select_one_layer_lstm_function`` does not ask for the kernel,
    which for bfloat16 not every CPU has.
    """
    kinds = {torch.float32}
    if torch.ops.mkldnn._is_mkldnn_bf16_supported():
        kinds.add(torch.bfloat16)
    return (
        isinstance(layers, torch.nn.LSTM)
        and not layers.proj_size
        and torch._C._get_mkldnn_enabled()
        and all(
            weight.device.type == "cpu" and weight.dtype in kinds for weight in layers.parameters()
        )
    )


def _call_torch(self: Any, tx: Any, args: Any, kwargs: Any) -> Any:
    # Upstream traces every step of a recurrent layer, and so knows one length only.
    whole = None
    if self.value in _RECURRENT and not torch.is_grad_enabled():
        whole = _whole_layers(tx, self.value, args)
    if whole is None:
        return _Upstream.call_torch(self, tx, args, kwargs)
    return _Upstream.call_torch(TorchInGraphFunctionVariable(whole), tx, args, kwargs)


_RECURRENT = (torch.gru, torch.lstm, torch.rnn_tanh, torch.rnn_relu)


def _whole_layers(tx: Any, function: Any, args: Any) -> Any:
    """The operator that stays whole, for a call of ``function`` by a layer of torch's own."""
    layers = getattr(tx.symbolic_locals.get("self"), "value", None)
    if not isinstance(layers, torch.nn.RNNBase) or _is_cut_into_layers(layers):
        return None
    # Of packed sequences the weights, which are the only list, come fourth.
    padded = isinstance(args[2].realize(), ListVariable)
    return recurrent.operators()[function] if padded else None


def _check_inlineable(function: Any) -> Any:
    # Upstream runs the body of an `async def` where it is called, and gives its result.
    code = function.get_code() if hasattr(function, "get_code") else None
    if code is not None and code.co_flags & inspect.CO_COROUTINE:
        unimplemented(
            gb_type="Call of an async function",
            context=code.co_qualname,
            explanation="Calling an async function makes a coroutine, which is not compiled.",
            hints=["Await it outside of the compiled code."],
        )
    return _Upstream.check_inlineable(function)


def _is_forbidden(function: Any) -> bool:
    # Upstream gives up all of a cell for one `torch._dynamo.mark_dynamic(x, 0)` in it.
    if _Upstream.is_forbidden(function):
        name = getattr(function, "__name__", repr(function))
        unimplemented(
            gb_type="Call of a function that is about compiling",
            context=name,
            explanation=f"`{name}` tells torch how to compile, and is no part of what is compiled.",
            hints=[f"Call `{name}` before the compiled code."],
        )
    return False


# Upstream walks through the globals of a generator that a break finds under way, as if they were
# variables of its own, and never ends where one holds itself. Builtins do, once names of Dynamo's
# wait among them (hidden_names.py).
_GENERATOR_FIELDS = {"f_globals", *_Upstream.generator_fields}


_PATCHES: tuple[tuple[Any, str, Any, Any], ...] = (
    (InstructionTranslatorBase, "run", _Upstream.run, _run),
    (InstructionTranslatorBase, "_load_global", _Upstream.load_global, _load_global),
    (
        InliningInstructionTranslator,
        "_load_global",
        _Upstream.load_global_inline,
        _load_global_inline,
    ),
    (
        InliningInstructionTranslator,
        "check_inlineable",
        staticmethod(_Upstream.check_inlineable),
        staticmethod(_check_inlineable),
    ),
    (InstructionTranslatorBase, "_format_value", _Upstream.format_value, _format_value),
    (convert_frame, "has_tensor_in_frame", _Upstream.has_tensor, _has_tensor),
    (BuiltinVariable, "call_function", _Upstream.call_builtin, _call_builtin),
    (UserFunctionVariable, "call_function", _Upstream.call_function, _call_function),
    (TorchInGraphFunctionVariable, "call_function", _Upstream.call_torch, _call_torch),
    (symbolic_convert, "is_forbidden", _Upstream.is_forbidden, _is_forbidden),
    (builder, "is_int_specialization_case", _Upstream.specialize_int, _specialize_int),
    (OutputGraph, "_get_stack_values_to_restore", _Upstream.stack_values, _stack_values),
    (builder.VariableBuilder, "_wrap", _Upstream.wrap, _wrap),
    (
        LazyConstantVariable,
        "create",
        staticmethod(_Upstream.lazy_constant),
        staticmethod(_lazy_constant),
    ),
    (builder.VariableBuilder, "wrap_module", _Upstream.wrap_module, _wrap_module),
    (
        LocalGeneratorObjectVariable,
        "_nonvar_fields",
        _Upstream.generator_fields,
        _GENERATOR_FIELDS,
    ),
)


@contextlib.contextmanager
def traced_our_way() -> Iterator[None]:
    """Trace with the patches of this file, for the length of the block."""
    _Tracing.depth += 1
    if _Tracing.depth == 1:
        for owner, name, _, ours in _PATCHES:
            setattr(owner, name, ours)
    try:
        yield
    finally:
        _Tracing.depth -= 1
        if _Tracing.depth == 0:
            for owner, name, theirs, _ in _PATCHES:
                setattr(owner, name, theirs)
