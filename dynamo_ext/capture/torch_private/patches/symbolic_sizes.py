"""Arithmetic on symbolic sizes, done once for the same operands.

Torch computes the memory of each symbolic tensor that it makes, in each pass over a graph: some
dozens of sums and products, always of the same few numbers.
"""

from collections.abc import Callable

from torch.fx.experimental.proxy_tensor import get_proxy_mode
from torch.fx.experimental.sym_node import SymNode, wrap_node

from dynamo_ext.capture.torch_private.patches.registry import patches_each

_TABLE = "_dynamo_ext_arithmetic"


@patches_each([SymNode], "add", "sub", "mul", "eq", "ne", "lt", "le", "gt", "ge", "sym_max")
def arithmetic(upstream: Callable[..., SymNode], one: SymNode, other: SymNode) -> SymNode:
    """What torch has computed of equal integers; in a trace, of those that it has written down."""
    # Without a hint a number depends on the data, and torch may learn it in between.
    if type(one.hint) is not int or type(other.hint) is not int or one.shape_env is None:
        return upstream(one, other)
    # With the symbols, which hold the environment: a table elsewhere would never let go of them.
    outcomes = vars(one.shape_env).setdefault(_TABLE, {})
    # As they were written down: torch looks symbols up again at each `expr`.
    key = upstream, one._expr, other._expr, one.hint, other.hint, one.pytype, other.pytype
    outcome: SymNode | None = outcomes.get(key)
    trace = get_proxy_mode()
    if outcome is None or (trace and wrap_node(outcome) not in trace.tracer.symnode_tracker):
        outcome = upstream(one, other)
        if trace is None:
            outcomes[key] = outcome
    return outcome
