"""Whether code asks for gradients of gradients, which a graph under AOTAutograd does not have.

It would fail in the user's ``backward()``, when it is too late to run the graph eagerly.
"""

import itertools
import sys
import traceback
import types
from collections.abc import Iterable, Sequence

import torch

from dynamo_ext.capture.cells.function_code import codes_within

MESSAGE = "The code says create_graph, and compiled graphs have no second derivatives."
REMEDY = "Without create_graph in the cell, or under -b eager, nothing of this applies."

_ARGUMENT = "create_graph"


def uses_create_graph(codes: Iterable[types.CodeType], inputs: Sequence[object]) -> bool:
    """Whether a graph may be differentiated twice, by ``codes`` and what is running now."""
    if not torch.is_grad_enabled():
        return False
    if not any(isinstance(each, torch.Tensor) and each.requires_grad for each in inputs):
        return False
    # Torch's own functions are left out.
    running = (
        frame.f_code
        for frame, _ in traceback.walk_stack(sys._getframe())  # noqa: SLF001 - as documented
        if not frame.f_globals.get("__name__", "").startswith(("torch.", "dynamo_ext."))
    )
    return any(map(_says_so, itertools.chain(codes, running)))


def _says_so(code: types.CodeType) -> bool:
    """Whether a call in ``code`` has the argument: a call's names are a constant."""
    return any(
        isinstance(const, tuple) and _ARGUMENT in const
        for each in codes_within(code)
        for const in each.co_consts
    )
