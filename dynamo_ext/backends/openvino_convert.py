"""From a partition of core ATen to an OpenVINO model."""

from __future__ import annotations

import contextlib
import functools
import logging
import re
import warnings
from typing import TYPE_CHECKING, Any

from dynamo_ext.backends import torch_private
from dynamo_ext.backends.freeze import duplicate

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import torch
    from torch.fx import GraphModule, Node

_WHOLE = (
    # OpenVINO has these as one operation, most of them fused into what comes before.
    "elu.default",
    "gelu.default",
    "hardsigmoid.default",
    "hardswish.default",
    "leaky_relu.default",
    "mish.default",
    "native_group_norm.default",
    "native_layer_norm.default",
    "silu.default",
    "softplus.default",
    "upsample_bilinear2d.vec",
    "upsample_nearest2d.vec",
)

_CUT_UP = (
    # Operators, most of them of backward graphs, that the frontend does not know.
    "_native_batch_norm_legit_functional.default",
    "_native_batch_norm_legit.no_stats",
    "native_batch_norm_backward.default",
    "native_layer_norm_backward.default",
    "native_group_norm_backward.default",
    "_softmax_backward_data.default",
    "_log_softmax_backward_data.default",
    "gelu_backward.default",
    "threshold_backward.default",
    "nll_loss_forward.default",
    "nll_loss_backward.default",
    "nll_loss2d_forward.default",
    "nll_loss2d_backward.default",
    "var.correction",
    "var_mean.correction",
)


def decompositions(
    table: dict[Any, Callable[..., Any]], *, training: bool
) -> dict[Any, Callable[..., Any]]:
    """The table without what OpenVINO has whole, and with more of what it has not.

    Parameters
    ----------
    table
        Core ATen's decompositions.
    training
        Whether forward and backward graphs are to come: attention stays whole in them, and
        normalisations are cut up, for the backward graph reads their statistics.
    """
    import torch

    whole = set() if training else {_overload(name) for name in _WHOLE}
    kept = {op: cut for op, cut in table.items() if op not in whole}
    if not training:
        attention = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default  # noqa: SLF001 - an operator
        kept[attention] = _masked(kept[attention])
    return kept | torch_private.decompositions_of(_CUT_UP)


def _overload(name: str) -> Any:
    import torch

    packet, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), overload)


def _masked(cut: Callable[..., Any]) -> Callable[..., Any]:
    """Attention cut up where it has a mask: whole, a row masked throughout would be NaN."""

    def attention(*args: Any, attn_mask: Any = None, **kwargs: Any) -> Any:
        if attn_mask is None:
            return NotImplemented
        return cut(*args, attn_mask=attn_mask, **kwargs)

    return attention


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep OpenVINO's Python side from logging and warning in a cell."""
    logger = logging.getLogger("openvino")
    before = logger.disabled
    logger.disabled = True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.disabled = before


def complaint(error: BaseException) -> str:
    """OpenVINO's message in one line, without its file names."""
    lines = [line.strip() for line in str(error).splitlines()]
    useless = re.compile(r"^(Exception from|Check '|Converting input model|Summary:?$|-- |$)")
    telling = [line for line in lines if not useless.match(line)]
    return (telling or [line for line in lines if line] or [type(error).__name__])[0][:300]


@functools.cache
def types() -> dict[torch.dtype, Any]:
    """The dtypes that cross over, as OpenVINO's types."""
    import torch
    from openvino import Type

    return {
        torch.float32: Type.f32,
        torch.bfloat16: Type.bf16,
        torch.int64: Type.i64,
        torch.int32: Type.i32,
        torch.bool: Type.boolean,
    }


@functools.cache
def _frontend() -> Any:
    from openvino.frontend import FrontEndManager

    manager = FrontEndManager()
    return manager.load_by_framework("pytorch"), manager


def prepare(graph: GraphModule) -> GraphModule:
    """A copy of a partition as the frontend wants it, and as it converts it rightly."""
    import torch
    from torch.fx.passes.shape_prop import TensorMetadata

    graph = duplicate(graph)
    for node in list(graph.graph.nodes):
        if node.op == "placeholder":
            value = node.meta["val"]
            shape = torch.Size([int(size) for size in value.shape])
            strides = torch.empty(shape, device="meta").stride()
            node.meta["tensor_meta"] = TensorMetadata(
                shape, value.dtype, False, strides, torch.contiguous_format, False, {}
            )
        elif node.op == "get_attr":
            node.meta.pop("tensor_meta", None)
            # The frontend reads through a bare pointer what it makes contiguous itself.
            setattr(graph, str(node.target), getattr(graph, str(node.target)).contiguous())
        else:
            node.meta.pop("tensor_meta", None)
            _mend(graph, node)
    graph.recompile()
    return graph


def _mend(graph: GraphModule, node: Node) -> None:
    """Write an operation in such a way that OpenVINO computes what torch does."""
    import torch

    aten = torch.ops.aten
    if node.target is aten.relu.default:
        # Its ReLU makes NaN to 0; its Maximum hands on a NaN of the first operand.
        value = node.meta["val"]
        with graph.graph.inserting_before(node):
            zero = graph.graph.call_function(aten.full.default, ([], 0.0), {"dtype": value.dtype})
        node.target, node.args = aten.maximum.default, (node.args[0], zero)


def convert(graph: GraphModule) -> Any:
    """An ``openvino.Model`` whose inputs and outputs are the graph's, in order.

    Parameters
    ----------
    graph
        From ``prepare``; it must live as long as the model, which shares its constants.

    Raises
    ------
    Exception
        Whatever the frontend raises on an operator that it cannot convert.
    """
    from openvino.frontend.pytorch.fx_decoder import TorchFXPythonDecoder
    from openvino.preprocess import PrePostProcessor

    frontend, _ = _frontend()
    decoder = TorchFXPythonDecoder(graph)
    model = frontend.convert(frontend.load(decoder))
    outputs: Any = graph.graph.output_node().args[0]
    wanted = [types()[node.meta["val"].dtype] for node in outputs]
    if len(model.outputs) != len(wanted):
        message = f"{len(model.outputs)} results came where {len(wanted)} were expected"
        raise RuntimeError(message)
    if any(o.get_element_type() != kind for o, kind in zip(model.outputs, wanted, strict=True)):
        processor = PrePostProcessor(model)
        for position, kind in enumerate(wanted):
            processor.output(position).tensor().set_element_type(kind)
        model = processor.build()
    return model
