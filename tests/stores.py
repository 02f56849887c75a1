"""Scripts that write to a store: killed at any moment, on a full disk, in a read-only folder."""

from __future__ import annotations

import os
import random
import resource
import subprocess
import sys
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from dynamo_ext.backends.crash_records import Attempt


def keys(folder: Path) -> dict[str, str]:
    """The environment of a process that has its cache in a folder, and keeps records there."""
    path = os.pathsep.join(sys.path)
    found = {**os.environ, "XDG_CACHE_HOME": str(folder), "PYTHONPATH": path}
    found["DYNAMO_EXT_CACHE"] = str(folder)
    found.pop("DYNAMO_EXT_UNRECORDED", None)
    return found


def left_behind(attempt: Attempt) -> None:
    """Leave an engine's record as a process does that ends meanwhile: nobody holds it."""
    attempt._begin("compiling")
    attempt._drop()


def kill_at_any_moment(script: str, folder: Path, times: int) -> None:
    """Run a script that says when it has begun and goes on for ever; kill it, again and again."""
    moments = random.Random(0)
    for _ in range(times):
        running = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", script],
            env=keys(folder),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        try:
            said = running.stdout.readline() if running.stdout else b""
            assert said == b"begun\n", running.communicate()[1].decode()
            time.sleep(moments.random() * 0.05)
            assert running.poll() is None
        finally:
            running.kill()
            running.communicate()


def at_once(script: str, folder: Path, processes: int) -> None:
    """Run a script in several processes at the same time; each of them ends well."""
    running = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", script],
            env=keys(folder),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(processes)
    ]
    assert [(each.communicate()[1], each.returncode) for each in running] == [("", 0)] * processes


def on_a_full_disk(script: str, folder: Path) -> str:
    """What a script says where no file can grow: to write to one fails."""

    def fill() -> None:
        # Python ignores the signal that comes with it.
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))

    return _said(script, folder, fill)


def read_only(script: str, folder: Path) -> str:
    """What a script says whose cache folder it may read alone."""
    folder.mkdir(exist_ok=True)
    before = folder.stat().st_mode
    folder.chmod(0o555)
    try:
        # The superuser may write anywhere.
        return _said(script, folder, _nobody if os.geteuid() == 0 else None)
    finally:
        folder.chmod(before)


def _nobody() -> None:
    import ctypes

    # Only its rights go: others' folders must stay readable on the way to this one.
    libc = ctypes.CDLL(None, use_errno=True)
    for capability in range(3):  # CAP_CHOWN, CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
        libc.prctl(24, capability, 0, 0, 0)


def _said(script: str, folder: Path, before: object) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        env=keys(folder),
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=before,  # type: ignore[arg-type]
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.strip()
