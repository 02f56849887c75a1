"""Scripts that write to a store: killed at any moment, on a full disk, in a read-only folder."""

from __future__ import annotations

import os
import random
import signal
import time
from typing import TYPE_CHECKING

from tests import forks

if TYPE_CHECKING:
    from pathlib import Path

    from dynamo_ext.backends.crash_records import Attempt


def keys(folder: Path) -> dict[str, str]:
    """The environment of a process that has its cache in a folder, and keeps records there."""
    found = forks.environment(XDG_CACHE_HOME=str(folder), DYNAMO_EXT_CACHE=str(folder))
    found.pop("DYNAMO_EXT_UNRECORDED", None)
    return found


def left_behind(attempt: Attempt) -> None:
    """Leave an engine's record as a second process does that ends meanwhile: nobody holds it."""
    for _ in range(2):
        attempt._begin("compiling")
        attempt._end(forked=True)


def kill_at_any_moment(script: str, folder: Path, times: int) -> None:
    """Run a script that says when it has begun and goes on for ever; kill it, again and again."""
    moments = random.Random(0)
    for _ in range(times):
        running = forks.Script(script, keys(folder))
        begun = running.out.readline()
        time.sleep(moments.random() * 0.05)
        running.kill()
        code, _, errors = running.end()
        assert (begun, code) == ("begun\n", -signal.SIGKILL), errors


def at_once(script: str, folder: Path, processes: int) -> None:
    """Run a script in several processes at the same time; each of them ends well."""
    running = [forks.Script(script + forks.LEAVE, keys(folder)) for _ in range(processes)]
    ended = [each.end() for each in running]
    assert [(errors, code) for code, _, errors in ended] == [("", 0)] * processes


# Python ignores the signal that comes with it.
_FULL = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
"""

# The superuser may write anywhere: only its rights go, for it owns what is on the way.
_WITHOUT_RIGHTS = """
import ctypes
assert ctypes.CDLL(None).capset((ctypes.c_uint32 * 2)(0x20080522), (ctypes.c_uint32 * 6)()) == 0
"""


def on_a_full_disk(script: str, folder: Path) -> str:
    """What a script says where no file can grow: to write to one fails."""
    return _said(_FULL + script, folder)


def read_only(script: str, folder: Path) -> str:
    """What a script says whose cache folder it may read alone."""
    folder.mkdir(exist_ok=True)
    before = folder.stat().st_mode
    folder.chmod(0o555)
    try:
        return _said(_WITHOUT_RIGHTS * (os.geteuid() == 0) + script, folder)
    finally:
        folder.chmod(before)


def _said(script: str, folder: Path) -> str:
    code, said, errors = forks.run(script + forks.LEAVE, keys(folder))
    assert (code, errors) == (0, "")
    return said.strip()
