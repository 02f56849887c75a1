"""Dispatch modes and tools that observe each operation."""

import contextlib
from collections.abc import Iterator

import torch
from torch.autograd import forward_ad
from torch.utils import _python_dispatch

_dispatch_modes = torch._C._len_torch_dispatch_stack
_jit_trace = torch._C._get_tracing_state


def tracing_mode_active() -> bool:
    """Whether a tool observes each operation now (``tracing_mode_name``), asked at each call."""
    # The level of forward mode is negative outside of its blocks.
    return bool(_dispatch_modes() or _jit_trace() is not None or forward_ad._current_level >= 0)


def tracing_mode_name() -> str:
    """The tool that observes each operation now, as its user calls it; empty where there is none.

    Engines would read memory that tensors do not have (``FakeTensorMode``); what compiled code
    gives would be a constant to a tracer, and has no tangent in forward mode.
    """
    if forward_ad._current_level >= 0:
        return "forward_ad.dual_level"
    if torch.compiler.is_exporting():
        return "torch.export"
    if _jit_trace() is not None:
        return "torch.jit.trace"
    modes = _python_dispatch._get_current_dispatch_mode_stack() if _dispatch_modes() else []
    return type(modes[-1]).__name__.lstrip("_") if modes else ""


@contextlib.contextmanager
def ended_where_it_raises() -> Iterator[None]:
    """Switch off the dispatch modes that a trace leaves on where an interrupt ends it.

    ``FakeTensorMode`` stays on where a signal arrives while it begins or ends (torch 2.13.0), and
    every later operation on a tensor with elements fails.
    """
    count, lifting = _dispatch_modes(), torch._C._only_lift_cpu_tensors()
    try:
        yield
    except BaseException:
        while _dispatch_modes() > count:
            _python_dispatch._pop_mode()
        torch._C._set_only_lift_cpu_tensors(lifting)
        raise
