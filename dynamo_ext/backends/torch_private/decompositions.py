"""Tables of decompositions, less those of torch that are wrong."""

import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule

from dynamo_ext.backends import effects
from dynamo_ext.backends.base import StayEager
from dynamo_ext.torch_private import fx_nodes

Decompositions = dict[Any, "Callable[..., Any]"]

_ATTENTION = "_scaled_dot_product_flash_attention_for_cpu.default"


@functools.cache
def core_decompositions() -> Mapping[Any, Callable[..., Any]]:
    """ATen to core ATen, less the decomposition whose gradients are wrong.

    ``_scaled_dot_product_flash_attention_for_cpu`` decomposed in a training graph gives wrong
    gradients without an error, so it stays whole there; inference adds it back. Random operators
    stay whole too: decomposed, they would draw other numbers from the same seed than eager does.
    So do those that check their numbers: decomposed, they would not.

    ``prims.fma``, which Dynamo by itself makes of ``addcmul_`` for Inductor, no other backend has.
    """
    # Torch looks through all its operators for each such table, which takes most of a small
    # graph's compilation. Composite operators registered later are decomposed without it.
    core: Decompositions = dict(torch._decomp.core_aten_decompositions())
    core.pop(fx_nodes.overload(_ATTENTION), None)
    table = {
        op: cut
        for op, cut in core.items()
        if torch.Tag.nondeterministic_seeded not in getattr(op, "tags", ())
        and op.overloadpacket.__name__ not in _KEPT_WHOLE
    }
    table[torch.ops.aten.adaptive_max_pool2d.default] = _pool_of_equal_windows
    fma = getattr(torch.ops.prims, "fma", None)
    return table if fma is None else table | {fma.default: lambda a, b, c: a * b + c}


def _pool_of_equal_windows(x: torch.Tensor, output_size: Sequence[int]) -> Any:
    """Adaptive pooling as one of a fixed window, which more engines have, if it is one."""
    found = [_window(n, out) for n, out in zip(x.shape[-2:], output_size, strict=True)]
    if None in found:
        return NotImplemented
    windows, steps = zip(*found, strict=True)
    return torch.ops.aten.max_pool2d_with_indices.default(x, windows, steps)


def _window(size: Any, count: int) -> tuple[int, int] | None:
    """The length and the step of adaptive pooling's windows, if these are equal."""
    if not (isinstance(size, int) and size and count):
        return None
    starts = [place * size // count for place in range(count)]
    lengths = {-(-(place + 1) * size // count) - start for place, start in enumerate(starts)}
    steps = {after - before for before, after in itertools.pairwise(starts)} or {size}
    if len(lengths) != 1 or len(steps) != 1 or 0 in steps:
        return None
    return lengths.pop(), steps.pop()


_KEPT_WHOLE = ("binary_cross_entropy", "index_add", "index_copy")
"""Operators that raise an error on some numbers, which they would take if they were decomposed."""


_CUT_WRONGLY = ("multilabel_margin_loss", "multilabel_margin_loss_forward")
"""Operators that AOTAutograd decomposes wrongly, whatever its table of decompositions says.

Torch 2.13.0 counts class 0 again for each label that a row has too few.
"""


_RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")
"""Operators whose dropout between layers AOTAutograd leaves out (2.13.0)."""


def refuse_wrong_cuts(graph: GraphModule) -> None:
    """Leave to eager a captured graph that AOTAutograd would make another function of."""
    graphs = [module.graph for module in graph.modules() if isinstance(module, GraphModule)]
    for node in (node for each in graphs for node in each.nodes):
        name = str(getattr(node.target, "__name__", "")).partition(".")[0]
        if name in _CUT_WRONGLY:
            reason = f"PyTorch's AOTAutograd computes {name} wrongly."
            raise StayEager(reason, "Compute this loss outside of the compiled code.")
        if name in _RECURRENT and effects.of_node(node).draws:
            reason = f"PyTorch's AOTAutograd leaves out the dropout between the layers of {name}."
            raise StayEager(reason, "Call the layer outside of the compiled code.")


BACKWARD = (
    "_native_batch_norm_legit_functional.default",
    "_native_batch_norm_legit.no_stats",
    "native_batch_norm_backward.default",
    "native_layer_norm_backward.default",
    "native_group_norm_backward.default",
    "_softmax_backward_data.default",
    "_log_softmax_backward_data.default",
    "gelu_backward.default",
    "nll_loss_forward.default",
    "nll_loss_backward.default",
    "nll_loss2d_forward.default",
    "nll_loss2d_backward.default",
    "threshold_backward.default",
)
"""Operators of training, most of them of backward graphs, that no engine has or has right."""


def decompositions_of(names: Sequence[str]) -> Decompositions:
    """Torch's decompositions of ATen operators by name (``native_layer_norm_backward.default``)."""
    table: Decompositions = torch._decomp.get_decompositions([*map(fx_nodes.overload, names)])
    return table


def attention_decomposition() -> Decompositions:
    """The one that ``core_decompositions`` leaves out: right where nothing is differentiated."""
    return decompositions_of([_ATTENTION])


@functools.cache
def gpu_attention() -> Decompositions:
    """Attention's fused kernels on CUDA as the operations that they compute, without gradients.

    Of their other results, which are for a backward pass or a generator, nothing is computed.
    """
    names = ("efficient", "flash", "cudnn")
    kernels = [fx_nodes.overload(f"_scaled_dot_product_{name}_attention.default") for name in names]

    def decomposed(kernel: Any) -> Callable[..., Any]:
        def attention(*args: Any, **kwargs: Any) -> Any:
            given = fx_nodes.named(kernel, args, kwargs)
            if any(map(given.get, ("compute_log_sumexp", "return_debug_mask", "dropout_p"))):
                return NotImplemented
            q, k, v = args[:3]
            output, _ = torch.ops.aten._scaled_dot_product_attention_math(
                q, k, v, given.get("attn_bias"),
                is_causal=given["is_causal"], scale=given["scale"],
            )  # fmt: skip
            lengths = {"max_q": q.shape[2], "max_k": k.shape[2]}
            rest = (lengths.get(r.name) or q.new_empty(0) for r in kernel._schema.returns[1:])
            return output, *rest

        return attention

    return {kernel: decomposed(kernel) for kernel in kernels}
