"""Every private torch interface that the backends rely on; checked on 2.13.0.

A change in torch is mended here and nowhere else. Nothing is imported before it is needed, so
that listing backends stays quick.
"""

from __future__ import annotations

import contextlib
import functools
import io
import logging
import warnings
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from torch.fx import GraphModule, Node

    from dynamo_ext.backends.base import CompilerFn

Decompositions = dict[Any, "Callable[..., Any]"]


def without_view_tracking(call: Callable[..., Any]) -> Callable[..., Any]:
    """``call`` with views that autograd knows nothing of, so that AOTAutograd makes its own.

    It replays a known view by ``_view_func``, which forgets a change of dtype (2.13.0).
    """
    import torch

    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.ADInplaceOrView)
    guard: Any = torch._C._ExcludeDispatchKeyGuard

    def quietly(*args: Any) -> Any:
        with guard(keys):
            return call(*args)

    return quietly


@contextlib.contextmanager
def outside_modes() -> Iterator[None]:
    """Switch off fake and functional modes, so that real tensors are real for a while.

    Operators also reach their own kernels: AOTAutograd's Python dispatcher would take some apart
    (batch normalisation) by way of Python.
    """
    from torch._dispatch.python import no_python_dispatcher
    from torch.utils._python_dispatch import _disable_current_modes

    with no_python_dispatcher(), _disable_current_modes():
        yield


def ends_recomputation(error: BaseException) -> bool:
    """Whether ``torch.utils.checkpoint`` says by it that it has recomputed all that it needs.

    It is raised where a graph saves a tensor, and is no failure of the graph's.
    """
    from torch.utils.checkpoint import _StopRecomputationError

    return isinstance(error, _StopRecomputationError)


def saving_is_watched() -> bool:
    """Whether somebody hears of each tensor that is saved for the backward pass (a checkpoint)."""
    import torch

    ignoring_traces = True
    return torch._C._autograd._top_saved_tensors_default_hooks(ignoring_traces) is not None


def restarts() -> tuple[type[BaseException], ...]:
    """Exceptions by which Dynamo asks to trace a frame again: never ours to catch."""
    from torch._dynamo.exc import RestartAnalysis

    return (RestartAnalysis,)


def core_decompositions() -> Decompositions:
    """ATen to core ATen, less the decomposition whose gradients are wrong.

    ``_scaled_dot_product_flash_attention_for_cpu`` decomposed in a training graph gives wrong
    gradients without a word, so it stays whole there; inference adds it back. Random operators
    stay whole too: cut up, they would draw other numbers than eager does from the same seed. So do
    those that look at their numbers: cut up, they would not.

    ``prims.fma``, which Dynamo by itself makes of ``addcmul_`` for Inductor, no other backend has.
    """
    import torch

    table = dict(_core_decompositions())
    fma = getattr(torch.ops.prims, "fma", None)
    return table if fma is None else table | {fma.default: lambda a, b, c: a * b + c}


_KEPT_WHOLE = (
    "binary_cross_entropy",
    "index_add",
    "index_copy",
    "multilabel_margin_loss",
    "multilabel_margin_loss_forward",
)
"""Operators that raise an error on some numbers, which they would take if they were cut up; and
those that torch 2.13.0 cuts up wrongly (a row with fewer labels counts class 0 for the others)."""


def _leave_whole(operation: Any) -> None:
    """Have tracing record an operator that torch cuts up in Python whatever the table says."""
    import torch

    operation.py_kernels.pop(torch._C.DispatchKey.Autograd, None)
    operation._dispatch_cache.clear()


@functools.cache
def _core_decompositions() -> Decompositions:
    # Torch looks through all its operators for each such table, which takes most of a small
    # graph's compilation. Composite operators registered later are decomposed without it.
    import torch

    seeded = torch.Tag.nondeterministic_seeded
    core: Decompositions = dict(torch._decomp.core_aten_decompositions())
    table = {op: cut for op, cut in core.items() if seeded not in getattr(op, "tags", ())}
    table.pop(torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default, None)
    _leave_whole(torch.ops.aten.multilabel_margin_loss_forward.default)
    return {op: cut for op, cut in table.items() if op.overloadpacket.__name__ not in _KEPT_WHOLE}


def arguments(node: Node) -> dict[str, Any]:
    """The arguments of a call by name, those that were left out with their defaults."""
    target: Any = node.target
    found: dict[str, Any] = {}
    for position, argument in enumerate(target._schema.arguments):
        if position < len(node.args):
            found[argument.name] = node.args[position]
        else:
            found[argument.name] = node.kwargs.get(argument.name, argument.default_value)
    return found


def decompositions_of(names: Sequence[str]) -> Decompositions:
    """Torch's decompositions of ATen operators by name (``native_layer_norm_backward.default``)."""
    import torch

    operators = []
    for name in names:
        packet, _, overload = name.partition(".")
        operators.append(getattr(getattr(torch.ops.aten, packet), overload))
    table: Decompositions = torch._decomp.get_decompositions(operators)
    return table


def autocasts(graph: GraphModule) -> bool:
    """Whether autocast is on where a captured graph is called, or anywhere in it."""
    import torch

    enter = torch.amp.autocast_mode._enter_autocast
    inside = any(node.target is enter for node in graph.graph.nodes)
    return inside or bool(torch._C._is_any_autocast_enabled())


def surely(condition: Any) -> bool:
    """Whether a comparison of symbolic sizes holds whatever they are; adds no guard."""
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    return statically_known_true(condition)


def attention_decomposition() -> Decompositions:
    """The one that ``core_decompositions`` leaves out: right as long as nobody differentiates."""
    import torch

    attention = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
    table: Decompositions = torch._decomp.get_decompositions([attention])
    return table


def aot_compile(  # noqa: PLR0913 - AOTAutograd's own shape
    graph: GraphModule,
    inputs: Sequence[Any],
    *,
    forward: CompilerFn,
    backward: CompilerFn,
    inference: CompilerFn,
    decompositions: Decompositions,
) -> Callable[..., Any]:
    """Run AOTAutograd: functional ATen graphs for forward and backward, or for inference."""
    from torch._dynamo.backends.common import aot_autograd

    compiler = aot_autograd(
        fw_compiler=forward,
        bw_compiler=backward,
        inference_compiler=inference,
        decompositions=decompositions,
    )
    return bare(compiler(graph, inputs))


def bare(compiled: Callable[..., Any]) -> Callable[..., Any]:
    """What AOTAutograd compiled, without the wrapper that keeps Dynamo from tracing it.

    Dynamo puts the same wrapper around whatever a backend returns, and each takes microseconds.
    """
    while getattr(compiled, "_torchdynamo_disable", False):
        inner = getattr(compiled, "_torchdynamo_orig_callable", None)
        if inner is None:
            break
        compiled = inner
    return compiled


def captured_name(node: Node) -> str:
    """The operation of the graph as Dynamo captured it that a node came of; empty if unknown."""
    sources = node.meta.get("from_node")
    if not sources:
        return ""
    source = sources[0]
    while source.from_node:
        source = source.from_node[0]
    return str(source.name)


def static_inputs() -> list[int]:
    """Positions of parameters and buffers in the *inference* graph that AOT is compiling.

    Buffers which the graph itself changes (batch-norm statistics in training mode, caches) are
    left out: frozen, they would be stale at each call. Meaningless for a backward graph.
    """
    facts = _being_compiled()
    if facts is None:
        return []
    changed = {
        i for i, info in enumerate(facts.input_info) if info.mutates_data or info.mutates_metadata
    }
    return [i for i in facts.static_input_indices if i not in changed]


def changed_inputs() -> int:
    """How many inputs the graph that AOT is compiling changes.

    Their new values are its first results, which AOT copies back behind it.
    """
    facts = _being_compiled()
    return len(facts.mutated_inp_runtime_indices) if facts is not None else 0


def _being_compiled() -> Any:
    """What AOT knows of the inputs and results of the graph that it is compiling, or ``None``."""
    from torch._guards import TracingContext

    context = TracingContext.try_get()
    return context.fw_metadata if context is not None else None


def is_fake(value: object) -> bool:
    """Whether ``value`` is a tensor that has no elements to read."""
    from torch._subclasses.fake_tensor import FakeTensor

    return isinstance(value, FakeTensor)


def is_plain_tensor(value: object) -> bool:
    """Whether ``value`` is a real strided tensor: no fake, no subclass with its own dispatch."""
    import torch
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    return (
        isinstance(value, torch.Tensor)
        and not is_fake(value)
        and not is_traceable_wrapper_subclass(value)
        and value.layout is torch.strided
    )


def is_overload(target: object) -> bool:
    """Whether a node's target is one overload of a dispatcher operator (``aten.add.Tensor``)."""
    from torch._ops import OpOverload

    return isinstance(target, OpOverload)


def has_unbacked(value: object) -> bool:
    """Whether a node's value has a size that only the data decides."""
    from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

    return bool(free_unbacked_symbols(value))


def is_symbolic(value: object) -> bool:
    """Whether a node's value is a symbolic number, or a tensor with a symbolic size."""
    import torch

    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return True
    if isinstance(value, torch.Tensor):
        return any(isinstance(size, torch.SymInt) for size in (*value.shape, *value.stride()))
    return isinstance(value, (tuple, list)) and any(map(is_symbolic, value))


def fake_mode() -> Any:
    """A fresh mode for shape propagation, apart from the one Dynamo is tracing under."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    return FakeTensorMode(allow_non_fake_inputs=True)


def torch_backends(*, debugging: bool = False) -> list[str]:
    """Names that torch lists for ``torch.compile``, entry points of others included.

    With ``debugging`` also those that torch keeps for its own tests, ``aot_eager`` among them.
    """
    import torch

    if debugging:
        names: list[str] = torch._dynamo.list_backends(exclude_tags=())
    else:
        names = torch._dynamo.list_backends()
    return names


def torch_backend(name: str) -> CompilerFn:
    """Torch's own compiler function for a registered name (loads an entry point)."""
    from torch._dynamo.backends.registry import lookup_backend

    found: Any = lookup_backend(name)
    return found  # type: ignore[no-any-return]


def maker(shape: tuple[int, ...], dtype: Any) -> Callable[[], Any]:
    """What makes row-major CPU tensors of one shape: Inductor's way, in a third of the time."""
    from torch._C._dynamo.guards import _empty_strided_cpu  # type: ignore[attr-defined]

    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return functools.partial(_empty_strided_cpu, shape, tuple(reversed(strides)), dtype)


def register_torch_backend(name: str, function: CompilerFn) -> None:
    """Put a compiler function into torch's registry, in the place of one with the same name."""
    from torch._dynamo.backends import registry

    registry._COMPILER_FNS.pop(name, None)
    registry.register_backend(function, name=name)


def inductor_compile(graph: GraphModule, inputs: Sequence[Any], mode: str) -> Callable[..., Any]:
    """Inductor on a graph, under one of its own modes (``default`` patches nothing)."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        from torch._inductor import list_mode_options
        from torch._inductor.compile_fx import compile_fx

    patches = list_mode_options(mode) if mode != "default" else None
    with warnings.catch_warnings():
        # Parts of torch still decorate with what torch itself has deprecated.
        warnings.simplefilter("ignore", DeprecationWarning)
        compiled: Any = compile_fx(graph, inputs, config_patches=patches)
    return bare(compiled)


@contextlib.contextmanager
def quiet_exporter() -> Iterator[None]:
    """Keep torch.onnx, onnxscript and onnx_ir from printing, logging and warning in a cell."""
    loggers = [logging.getLogger(n) for n in ("torch.onnx", "onnxscript", "onnx_ir")]
    loggers += [
        logging.getLogger(name)
        for name in list(logging.root.manager.loggerDict)
        if name.startswith(("torch.onnx.", "onnxscript.", "onnx_ir."))
    ]
    before = [logger.disabled for logger in loggers]
    for logger in loggers:
        logger.disabled = True
    try:
        with (
            warnings.catch_warnings(),
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, disabled in zip(loggers, before, strict=True):
            logger.disabled = disabled


@functools.cache
def onnx_registry() -> Any:
    """The exporter's table from ATen operators to ONNX functions (half a second, once).

    With what it does not know as they come here: recurrent layers.
    """
    from dynamo_ext.backends import onnx_recurrent

    with quiet_exporter():
        # Imported first, so that their loggers exist by the time that they are silenced.
        from torch.onnx._internal.exporter import _core, _registration

    del _core
    with quiet_exporter():
        registry = _registration.ONNXRegistry.from_torchlib()
        for operator, function in onnx_recurrent.functions().items():
            registry.register_op(operator, function)
    return registry


def onnx_function(node: Node) -> Any:
    """The ONNX function for a node; ``None`` where the exporter has none."""
    from torch.onnx._internal.exporter import _dispatching

    function, _ = _dispatching.dispatch(node, onnx_registry())
    return function


def onnx_promote_types(graph: GraphModule) -> None:
    """Insert the casts that ATen does silently and ONNX does not, in place."""
    import torch
    from torch._guards import tracing
    from torch._subclasses.fake_tensor import FakeTensor
    from torch.onnx._internal.fx import passes

    nodes = list(graph.graph.nodes)
    if any(isinstance(node.meta.get("val"), FakeTensor) for node in nodes):
        passes.InsertTypePromotion(graph).run()
        return
    mode = fake_mode()
    for node in nodes:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            node.meta["val"] = mode.from_tensor(value)
    # The pass would take the mode of a compilation under way before that of the values.
    with tracing(None):
        passes.InsertTypePromotion(graph).run()


def onnx_constant(tensor: Any, name: str) -> Any:
    """A torch tensor as an ``onnx_ir`` one, memory shared (``raw`` gives it back)."""
    from torch.onnx._internal.exporter._core import TorchTensor

    return TorchTensor(tensor, name=name)


def onnx_ir_version() -> int:
    """The version of the ONNX format that the exporter writes."""
    from torch.onnx._internal.exporter import _constants

    return int(_constants.ONNX_IR_VERSION)


def onnx_translate(graph: GraphModule, model: Any) -> None:
    """Write an ATen graph without ``get_attr`` nodes into an empty ``onnx_ir.Model``.

    The model's inputs and outputs have the order of the graph's.
    """
    from torch.onnx._internal.exporter import _core, _ir_passes

    _core._translate_fx_graph(
        graph.graph,
        model,
        graph_like=model.graph,
        owned_graphs={},
        lower="at_conversion",
        registry=onnx_registry(),
    )
    _ir_passes.add_opset_imports(model)


class JitGraph:
    """A TorchScript graph under construction, and the functions made of it.

    Written straight into the interpreter's own form: what ``torch.jit.script`` compiles lives in
    one compilation unit until the process ends, constants included; a function made here goes
    with its last reference. Nothing here warns of TorchScript's deprecation.
    """

    def __init__(self) -> None:
        import torch

        self._graph: Any = torch._C.Graph()

    def placeholder(self, value: Any) -> Any:
        """Add an input of the type of ``value`` (an FX node's ``meta["val"]``)."""
        made = self._graph.addInput()
        made.setType(jit_type_of(value))
        return made

    def constant(self, value: Any) -> Any:
        """A constant; a tensor's memory is shared."""
        import torch

        if isinstance(value, torch.memory_format):
            # The binding takes no memory formats; TorchScript knows them by number.
            formats = (
                torch.contiguous_format,
                torch.preserve_format,
                torch.channels_last,
                torch.channels_last_3d,
            )
            value = formats.index(value)
        return self._graph.insertConstant(value)

    def call(self, name: str, inputs: Sequence[Any], types: Sequence[Any]) -> tuple[str, list[Any]]:
        """Add an operation; the schema that TorchScript found for it, and its results."""
        node = self._graph.create(name, list(inputs), len(types))
        self._graph.insertNode(node)
        results = list(node.outputs())
        for result, kind in zip(results, types, strict=True):
            result.setType(kind)
        # The operator and all its arguments' types decide; "(no schema)" where none fits.
        schema = node.schema() if not name.startswith("prim::") else ""
        return str(schema), results

    def returns(self, values: Sequence[Any]) -> None:
        """Return a list of tensors."""
        import torch

        kind = torch._C.ListType.ofTensors()
        _, (result,) = self.call("prim::ListConstruct", values, [kind])
        self._graph.registerOutput(result)

    def freeze(self, *, fold: bool) -> None:
        """What ``torch.jit.freeze`` does to a module's graph.

        With ``fold``, constants are computed first. Without it a graph of mixed ``addmm`` and
        folded states (an LSTM cell) keeps running: folded, its shape propagation raised.
        """
        import torch

        with torch.no_grad():
            if fold:
                torch._C._jit_pass_constant_propagation(self._graph)
                torch._C._jit_pass_dce(self._graph)
            torch._C._jit_pass_optimize_frozen_graph(self._graph, True)  # noqa: FBT003 - theirs

    def optimize_for_inference(self) -> None:
        """What ``torch.jit.optimize_for_inference`` does after freezing, in its order."""
        import torch

        with torch.no_grad():
            torch._C._jit_pass_fuse_frozen_conv_add_relu(self._graph)
            torch._C._jit_pass_convert_frozen_ops_to_mkldnn(self._graph)
            torch._C._jit_pass_transpose_frozen_linear(self._graph)

    def operators(self) -> list[str]:
        """The kinds of its nodes, in order."""
        return [str(node.kind()) for node in self._graph.nodes()]

    def function(self) -> Callable[..., list[Any]]:
        """A callable of its own, run by TorchScript's interpreter."""
        import torch

        made: Callable[..., list[Any]] = torch._C._create_function_from_graph(
            "forward", self._graph
        )
        return made


def jit_type_of(value: Any) -> Any:
    """TorchScript's type for an FX node's value."""
    import torch

    if isinstance(value, torch.Tensor):
        return torch._C.TensorType.get()
    if isinstance(value, (bool, torch.SymBool)):
        return torch._C.BoolType.get()
    if isinstance(value, (int, torch.SymInt)):
        return torch._C.IntType.get()
    if isinstance(value, (float, torch.SymFloat)):
        return torch._C.FloatType.get()
    if isinstance(value, (list, tuple)) and all(isinstance(v, torch.Tensor) for v in value):
        return torch._C.ListType.ofTensors()
    message = f"TorchScript takes no {type(value).__name__} from outside."
    raise TypeError(message)


def llvm_enabled() -> bool:
    """Whether this torch was built with LLVM, which NNC compiles with on a CPU."""
    import torch

    return bool(torch._C._llvm_enabled())


@contextlib.contextmanager
def nnc_fuser() -> Iterator[None]:
    """TorchScript's tensor-expression fuser on, and every setting as it was afterwards."""
    import torch

    c = torch._C
    cpu, gpu, fuser = (
        c._jit_can_fuse_on_cpu(),
        c._jit_can_fuse_on_gpu(),
        c._jit_texpr_fuser_enabled(),
    )
    executor = c._jit_set_profiling_executor(True)  # noqa: FBT003 - their signature
    mode = c._get_graph_executor_optimize()
    profiling = c._jit_set_profiling_mode(True)  # noqa: FBT003
    try:
        c._set_graph_executor_optimize(True)  # noqa: FBT003
        c._jit_override_can_fuse_on_cpu(llvm_enabled())
        c._jit_override_can_fuse_on_gpu(True)  # noqa: FBT003
        c._jit_set_texpr_fuser_enabled(True)  # noqa: FBT003
        yield
    finally:
        c._jit_set_profiling_executor(executor)
        c._jit_set_profiling_mode(profiling)
        c._set_graph_executor_optimize(mode)
        c._jit_override_can_fuse_on_cpu(cpu)
        c._jit_override_can_fuse_on_gpu(gpu)
        c._jit_set_texpr_fuser_enabled(fuser)


def cudagraph_objection(graph: GraphModule, fixed: int) -> str:
    """Why torch's CUDA graphs would skip an ATen graph; empty where they would not.

    ``fixed`` counts the inputs (parameters, first) whose addresses stay: those may be changed.
    Needs no GPU where the graph's values are fake.
    """
    from torch._dynamo.backends.cudagraphs import check_for_skip

    return plain_skip(check_for_skip(graph, fixed) or "")


def plain_skip(message: str) -> str:
    """A skip's reason, without the words (at times doubled) before it and the trace after it."""
    prefix = "skipping cudagraphs due to "
    text = message.partition("Found from")[0].strip().rstrip(".")
    while text.startswith(prefix):
        text = text.removeprefix(prefix).strip()
    return text


def cudagraph_skips() -> int:
    """How many graphs torch's CUDA graphs have skipped in this process."""
    from torch._dynamo.utils import counters

    return int(counters["inductor"]["cudagraph_skips"])


@contextlib.contextmanager
def cudagraph_reasons() -> Iterator[list[str]]:
    """The reasons that torch logs for its skips, collected, and kept from being printed."""
    found: list[str] = []

    class Collect(logging.Filter):
        def filter(self, record: logging.LogRecord) -> bool:
            message = record.getMessage()
            if "skipping cudagraphs" not in message:
                return True
            found.append(plain_skip(message))
            return False

    logger = logging.getLogger("torch._inductor.cudagraph_utils.__cudagraphs")
    collect = Collect()
    logger.addFilter(collect)
    try:
        yield found
    finally:
        logger.removeFilter(collect)


def has_lazy() -> bool:
    """Whether this torch was built with Lazy Tensor Core's TorchScript backend."""
    import torch

    return hasattr(torch._C, "_lazy_ts_backend")


@functools.cache
def lazy_start() -> None:
    """Register the kernels of the device ``lazy``, once in a process."""
    import torch

    start: Callable[[], None] = torch._C._lazy_ts_backend._init
    start()


def lazy_step() -> None:
    """Compute every lazy tensor that is pending, and wait for it.

    A failure is raised here, and once more by whoever waits next.
    """
    import torch

    torch._C._lazy._mark_step("", [], True)  # noqa: FBT003 - device, devices, wait


def lazy_eager_calls() -> dict[str, int]:
    """How often Lazy Tensor Core has run each operator eagerly for want of a lowering."""
    import torch

    lazy = torch._C._lazy
    names = [name for name in lazy._counter_names() if name.startswith("aten::")]
    return {name: int(lazy._counter_value(name)) for name in names}


def has_lazy_kernel(name: str) -> bool:
    """Whether an operator (``aten::add.Tensor``) has a lazy kernel, or is made of others.

    A view has none: it is computed as its copying twin (``aten::view_copy``).
    """
    import torch

    keys = (
        "Lazy",
        "CompositeImplicitAutograd",
        "CompositeExplicitAutograd",
        "CompositeExplicitAutogradNonFunctional",
    )
    has = torch._C._dispatch_has_kernel_for_dispatch_key
    packet, dot, overload = name.partition(".")
    twin = f"{packet}_copy{dot}{overload}"
    known = set(torch._C._dispatch_get_all_op_names())
    return any(has(each, key) for each in (name, twin) if each in known for key in keys)


def checkpoint_operator() -> Any:
    """The higher-order operator that Dynamo writes for ``torch.utils.checkpoint``."""
    import torch

    return torch.ops.higher_order.tag_activation_checkpoint


def is_traced(values: Sequence[Any]) -> bool:
    """Whether code that gets these values is being traced: with fake tensors, or to a graph."""
    from torch._guards import detect_fake_mode

    return detect_fake_mode(values) is not None
