"""Scripts in processes of their own, forked from one that has imported torch, which takes seconds.

What they import besides is new to each of them, and each ends as any interpreter does.
"""

from __future__ import annotations

import atexit
import functools
import json
import os
import signal
import subprocess
import sys
import tempfile
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_PARENT = """
import json, os, sys
import IMPORTED
for line in sys.stdin:
    what, said = json.loads(line)
    if isinstance(what, int):
        print(os.waitstatus_to_exitcode(os.waitpid(what, 0)[1]), flush=True)
        continue
    here = os.fork()
    if here == 0:
        break
    print(here, flush=True)
else:
    sys.exit()
os.environ.clear()
os.environ.update(said["environment"])
for number, name in enumerate((os.devnull, said["out"], said["err"])):
    os.dup2(os.open(name, os.O_WRONLY if number else os.O_RDONLY), number)
exec(compile(what, "<string>", "exec"))
"""

LEAVE = """
import os, sys
sys.stdout.flush()
os._exit(0)
"""
"""At a script's end: it takes nothing apart, which costs more than most scripts do."""

_TORCH = "torch._dynamo"


class Script:
    """A script that runs: its outputs, and how it ends."""

    def __init__(self, script: str, environment: Mapping[str, str], imported: str = _TORCH) -> None:
        self._parent = _parent(imported)
        with tempfile.TemporaryDirectory() as folder:
            names = {name: os.path.join(folder, name) for name in ("out", "err")}  # noqa: PTH118
            for name in names.values():
                os.mkfifo(name)
            self.number = self._ask([script, {"environment": dict(environment), **names}])
            # Each waits for the other end.
            self.out: IO[str] = open(names["out"])  # noqa: PTH123, SIM115
            self.err: IO[str] = open(names["err"])  # noqa: PTH123, SIM115

    def kill(self) -> None:
        os.kill(self.number, signal.SIGKILL)

    def end(self) -> tuple[int, str, str]:
        """Wait for it: the code that it ends with, or minus a signal, and what it still said."""
        with self.out, self.err:
            said = self.out.read(), self.err.read()
        return self._ask([self.number, None]), *said

    def _ask(self, request: list[Any]) -> int:
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        print(json.dumps(request), file=self._parent.stdin, flush=True)
        return int(self._parent.stdout.readline())


def run(
    script: str, environment: Mapping[str, str], imported: str = _TORCH
) -> tuple[int, str, str]:
    """Run a script to its end: the code it ends with, its output, its errors."""
    return Script(script, environment, imported).end()


def environment(**more: str) -> dict[str, str]:
    """This process's, from which tests can be imported."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **more}


@functools.cache
def _parent(imported: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-W", "ignore", "-c", _PARENT.replace("IMPORTED", imported)]
    started = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment()
    )
    atexit.register(started.communicate)
    return started
