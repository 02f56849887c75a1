"""Torch's own containers of layers, captured where a function that runs in Python calls them.

Upstream begins no graph in torch's own code: a loop that stays Python, as one that trains does,
would run an ``nn.Sequential`` in eager.
"""

import types
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch._dynamo import eval_frame, trace_rules
from torch._dynamo.types import FrameAction, FrameExecStrategy

from dynamo_ext.capture.torch_private.code_cache import learned
from dynamo_ext.capture.torch_private.patches.registry import patches

_CONTAINERS = (
    torch.nn.Sequential,
    torch.nn.MultiheadAttention,
    torch.nn.Transformer,
    torch.nn.TransformerEncoder,
    torch.nn.TransformerEncoderLayer,
    torch.nn.TransformerDecoder,
    torch.nn.TransformerDecoderLayer,
)
_FORWARDS = {each.forward.__code__ for each in _CONTAINERS}

_left_to_python: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
"""Those that cannot be captured: their code is every model's, and is never given up as a whole."""
learned.append(_left_to_python)

_left_for_now: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()


def look_at_them(left: Iterable[torch.nn.Module] = ()) -> None:
    """Have Dynamo ask about containers again, whose code it leaves alone for good by itself.

    Those that are ``left`` begin no graph until the next such call.
    """
    _left_for_now.clear()
    _left_for_now.update(left)
    asked = FrameExecStrategy(FrameAction.DEFAULT, FrameAction.DEFAULT)
    for code in _FORWARDS:
        eval_frame.set_code_exec_strategy(code, asked)


def container(frame: types.FrameType) -> torch.nn.Module | None:
    """The container whose ``forward`` a frame is; ``None`` for other frames."""
    code = frame.f_code
    return frame.f_locals["self"] if code.co_name == "forward" and code in _FORWARDS else None


def is_captured(module: torch.nn.Module) -> bool:
    """Whether a container is begun as a graph of its own."""
    left = module in _left_to_python or module in _left_for_now
    return not left and next(module.children(), None) is not None


def leave_to_python(module: torch.nn.Module) -> None:
    """Begin no graph with this container from now on; its layers run in eager."""
    _left_to_python.add(module)


@patches(trace_rules, "check")
def check(upstream: Callable[..., bool], obj: Any, *args: Any, **options: Any) -> bool:
    """Do not skip the frame of a container."""
    frame = options.get("frame")
    return (frame is None or container(frame) is None) and upstream(obj, *args, **options)
