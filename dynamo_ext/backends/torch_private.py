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


def outside_modes() -> contextlib.AbstractContextManager[Any]:
    """Switch off fake and functional modes, so that real tensors are real for a while."""
    from torch.utils._python_dispatch import _disable_current_modes

    manager: contextlib.AbstractContextManager[Any] = _disable_current_modes()
    return manager


def restarts() -> tuple[type[BaseException], ...]:
    """Exceptions by which Dynamo asks to trace a frame again: never ours to catch."""
    from torch._dynamo.exc import RestartAnalysis

    return (RestartAnalysis,)


def core_decompositions() -> Decompositions:
    """ATen to core ATen, less the decomposition whose gradients are wrong.

    ``_scaled_dot_product_flash_attention_for_cpu`` decomposed in a training graph gives wrong
    gradients without a word, so it stays whole there; inference adds it back. Random operators
    stay whole too: cut up, they would draw other numbers than eager does from the same seed.
    """
    import torch

    seeded = torch.Tag.nondeterministic_seeded
    core: Decompositions = dict(torch._decomp.core_aten_decompositions())
    table = {op: cut for op, cut in core.items() if seeded not in getattr(op, "tags", ())}
    table.pop(torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default, None)
    return table


def decompositions_of(names: Sequence[str]) -> Decompositions:
    """Torch's decompositions of ATen operators by name (``native_layer_norm_backward.default``)."""
    import torch

    operators = []
    for name in names:
        packet, _, overload = name.partition(".")
        operators.append(getattr(getattr(torch.ops.aten, packet), overload))
    table: Decompositions = torch._decomp.get_decompositions(operators)
    return table


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
    compiled: Callable[..., Any] = compiler(graph, inputs)
    return compiled


def static_inputs() -> list[int]:
    """Positions of parameters and buffers in the *inference* graph that AOT is compiling.

    Buffers which the graph itself changes (batch-norm statistics in training mode, caches) are
    left out: frozen, they would be stale at each call. Meaningless for a backward graph.
    """
    from torch._guards import TracingContext

    context = TracingContext.try_get()
    facts = context.fw_metadata if context is not None else None
    if facts is None:
        return []
    changed = {
        i for i, info in enumerate(facts.input_info) if info.mutates_data or info.mutates_metadata
    }
    return [i for i in facts.static_input_indices if i not in changed]


def is_plain_tensor(value: object) -> bool:
    """Whether ``value`` is a real strided tensor: no fake, no subclass with its own dispatch."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensor
    from torch.utils._python_dispatch import is_traceable_wrapper_subclass

    return (
        isinstance(value, torch.Tensor)
        and not isinstance(value, FakeTensor)
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
    return compiled  # type: ignore[no-any-return]


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
    """The exporter's table from ATen operators to ONNX functions (half a second, once)."""
    with quiet_exporter():
        # Imported first, so that their loggers exist by the time that they are silenced.
        from torch.onnx._internal.exporter import _core, _registration

    del _core
    with quiet_exporter():
        return _registration.ONNXRegistry.from_torchlib()


def onnx_function(node: Node) -> Any:
    """The ONNX function for a node; ``None`` where the exporter has none."""
    from torch.onnx._internal.exporter import _dispatching

    function, _ = _dispatching.dispatch(node, onnx_registry())
    return function


def onnx_promote_types(graph: GraphModule) -> None:
    """Insert the casts that ATen does silently and ONNX does not, in place."""
    import torch
    from torch._guards import detect_fake_mode
    from torch.onnx._internal.fx import passes

    nodes = list(graph.graph.nodes)
    if detect_fake_mode([node.meta.get("val") for node in nodes]) is None:
        mode = fake_mode()
        for node in nodes:
            value = node.meta.get("val")
            if isinstance(value, torch.Tensor):
                node.meta["val"] = mode.from_tensor(value)
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
