"""The high-water mark of what one call holds."""

import contextlib
import ctypes
import gc
import re
from collections.abc import Callable
from pathlib import Path

import torch

_STATUS = Path("/proc/self/status")
_MARKS = Path("/proc/self/clear_refs")


def peak_of(call: Callable[[], object], gpu: torch.device | None = None) -> int | None:
    """Bytes that a call held at its height, above what the process held before it.

    On ``gpu``, the caching allocator's own count. Without it, the kernel's high-water mark of
    resident memory, reset before the call (Linux: ``/proc/self/clear_refs``, see proc(5)), so it
    counts every allocator's memory, that of engines too; memory that an allocator kept from
    earlier calls and uses again is not seen, hence the trim before. ``None`` elsewhere.
    """
    if gpu is not None:
        torch.cuda.synchronize(gpu)
        torch.cuda.reset_peak_memory_stats(gpu)
        before = torch.cuda.memory_allocated(gpu)
        call()
        torch.cuda.synchronize(gpu)
        return max(torch.cuda.max_memory_allocated(gpu) - before, 0)
    gc.collect(1)
    # Have the C library give its free memory back (glibc alone can be asked to).
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    try:
        _MARKS.write_text("5", encoding="ascii")
    except OSError:
        call()
        return None
    before_kib = _kib("VmRSS")
    call()
    return max(_kib("VmHWM") - before_kib, 0) * 1024


def _kib(field: str) -> int:
    text = _STATUS.read_text(encoding="ascii", errors="replace")
    found = re.search(rf"^{field}:\s*(\d+)", text, re.MULTILINE)
    return int(found[1]) if found else 0
