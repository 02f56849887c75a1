"""Whether code asks for gradients of gradients, which a graph under AOTAutograd does not have.

It would fail in the user's ``backward()``, when it is too late to run the graph eagerly.
"""

import sys
import types
from collections.abc import Iterable, Iterator, Sequence

import torch

MESSAGE = "The code says create_graph, and compiled graphs have no second derivatives."
REMEDY = "Without create_graph in the cell, or under -b eager, nothing of this applies."

_ARGUMENT = "create_graph"


def uses_create_graph(codes: Iterable[types.CodeType], inputs: Sequence[object]) -> bool:
    """Whether a graph may be differentiated twice, by ``codes`` and what is running now."""
    if not torch.is_grad_enabled():
        return False
    if not any(isinstance(each, torch.Tensor) and each.requires_grad for each in inputs):
        return False
    return any(map(_says_so, codes)) or any(map(_says_so, _running()))


def _says_so(code: types.CodeType) -> bool:
    """Whether a call in ``code`` has the argument: a call's names are a constant."""
    return any(
        (isinstance(const, tuple) and _ARGUMENT in const)
        or (isinstance(const, types.CodeType) and _says_so(const))
        for const in code.co_consts
    )


def _running() -> Iterator[types.CodeType]:
    """The code of this thread's functions, torch's left out."""
    frame = sys._getframe()  # noqa: SLF001 - the documented way to the stack
    while frame is not None:
        if not frame.f_globals.get("__name__", "").startswith(("torch.", "dynamo_ext.")):
            yield frame.f_code
        frame = frame.f_back  # type: ignore[assignment]
