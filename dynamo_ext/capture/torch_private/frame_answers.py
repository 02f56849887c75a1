"""What a frame callback answers Dynamo."""

from typing import Any

from torch._dynamo import eval_frame, exc
from torch._dynamo.types import ConvertFrameReturn, FrameAction, FrameExecStrategy

from dynamo_ext.interruptions import failures


def convert(callback: Any, frame: Any, cache: Any, state: Any) -> ConvertFrameReturn:
    """Dynamo's answer for a frame, by the callback that ``frame_callback`` gave.

    As under ``suppress_errors``, a frame that cannot be compiled runs eagerly from now on. Raises
    what torch raises all the same, and what interrupted it, which torch would swallow.
    """
    try:
        return callback(frame, cache, state)  # type: ignore[no-any-return]
    except failures() as error:  # torch has more kinds than it names
        if isinstance(error, _NEVER_SUPPRESSED):
            raise
        strategy = getattr(error, "frame_exec_strategy", None)
        if strategy is not None:
            return ConvertFrameReturn(frame_exec_strategy=strategy)
        return ConvertFrameReturn(skip_reason="it could not be compiled")


_NEVER_SUPPRESSED = (
    exc.ResumePrologueTracingError,
    exc.UncapturedHigherOrderOpError,
    # Of other frames, torch has made a graph break or a skipped frame already.
    exc.Unsupported,
    exc.UserError,
)


def refuse_recompile(callback: Any, frame: Any, cache: Any, state: Any) -> Any:
    """Raise ``RuntimeError`` as the stance ``fail_on_recompile`` does for a frame of the user's."""
    refuse: Any = eval_frame._callback_from_stance(callback)
    return refuse(frame, cache, state)


def _once(own: FrameAction, callees: FrameAction) -> ConvertFrameReturn:
    strategy = FrameExecStrategy(own, callees)
    return ConvertFrameReturn(frame_exec_strategy=strategy, apply_to_code=False)


# Not for good: the user's own torch.compile of this code is to find what it always has.
EAGERLY_ONCE = _once(FrameAction.DEFAULT, FrameAction.DEFAULT)
"""This frame runs eagerly, this time, and is forgotten; what it calls may be compiled."""

NOTHING_NEW_ONCE = _once(FrameAction.DEFAULT, FrameAction.RUN_ONLY)
"""The same, but what it calls may reuse compiled code and never compile."""

PYTHON_ONCE = _once(FrameAction.SKIP, FrameAction.SKIP)
"""The frame and what it calls run as plain Python, and it is forgotten."""

_OWN = frozenset({"Observed exception", "failed to find name in frame builtins"})
"""Graph breaks that stand for an error which the code raises in eager, too."""


def is_users_own(error: Exception) -> bool:
    """Whether tracing failed where the user's code itself, by all appearances, raises an error."""
    if isinstance(error, exc.Unsupported):
        return error.gb_type in _OWN
    return isinstance(error, exc.TorchRuntimeError)


def skip_permanently(*_frame: Any) -> ConvertFrameReturn:
    """A frame callback's answer, and itself such a callback: Dynamo is never to look at this code.

    It leaves the callback alone while the frame runs, so that our own frames can take it out.
    """
    return ConvertFrameReturn()
