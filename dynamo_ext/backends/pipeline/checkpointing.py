"""Activation checkpoints in a captured graph, where the graph runs as it is.

Dynamo writes ``torch.utils.checkpoint`` as a higher-order operator that leaves the random state
alone, since AOTAutograd's partitioner sees to it. Run in eager, it would draw another dropout mask
in the backward pass, and refuse a batch norm that counts its batches.
"""

from typing import Any

from torch.fx import GraphModule
from torch.utils.checkpoint import checkpoint

from dynamo_ext.torch_private import fx_nodes


def keep_random_state(graph: GraphModule) -> None:
    """Make a captured graph's checkpoints keep their random state, unless they are traced."""
    operator = fx_nodes.checkpoint_operator()
    found = graph.graph.find_nodes(op="call_function", target=operator)
    for node in found:
        node.target = checkpointed
    if found:
        graph.recompile()


def checkpointed(body: GraphModule, *args: Any, **kwargs: Any) -> Any:
    """A checkpoint as eager has it; traced, it is the operator that Dynamo wrote.

    The arguments are those of ``body`` and of ``torch.utils.checkpoint.checkpoint``.
    """
    operator = fx_nodes.checkpoint_operator()
    if fx_nodes.is_traced(args):
        return operator(body, *args, **kwargs)
    settings, given = operator.divide_kwargs(kwargs)
    settings["use_reentrant"] = False
    if "_checkpoint_context_fn" in body.meta:
        settings["context_fn"] = body.meta["_checkpoint_context_fn"]
    # Not as arguments of checkpoint: it would forbid the body to write to them, as to a buffer.
    return checkpoint(lambda: body(*args, **given), **settings)
