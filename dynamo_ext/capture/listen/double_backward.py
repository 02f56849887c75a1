"""Gradients of gradients, which a graph under AOTAutograd does not have.

Where the code asks for them, its graphs are eager's: they would fail in the user's ``backward()``,
when it is too late to run a graph eagerly. Where a later cell asks, torch's error says what to do.
"""

import itertools
import sys
import traceback
import types
from collections.abc import Iterable, Sequence

import torch

from dynamo_ext.capture.code.function_code import codes_within

MESSAGE = "The code says create_graph, and compiled graphs have no second derivatives."
REMEDY = "Without create_graph in the cell, or under -b eager, nothing of this applies."

_ARGUMENT = "create_graph"
_LATER = (
    "torch.compile with aot_autograd does not currently support double backward. Run the cell that "
    "made these tensors under -b eager, or take the gradients with create_graph in that cell."
)


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


def explain(gradients: Iterable[object]) -> None:
    """Have the gradients of these gradients of a compiled graph raise an error with a remedy."""
    if torch.is_grad_enabled():
        nodes = {each.grad_fn for each in gradients if isinstance(each, torch.Tensor)} - {None}
        for node in nodes:
            node.register_prehook(_refuse)  # type: ignore[union-attr]


def _refuse(_: object) -> None:
    raise RuntimeError(_LATER)
