"""Scripts that are to run in a process of their own, and to say nothing there."""

from __future__ import annotations

import subprocess
import sys

from tests import forks


def silent(script: str, **environment: str) -> None:
    """Run a script; it ends well, and prints nothing."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env=forks.environment(**environment),
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
