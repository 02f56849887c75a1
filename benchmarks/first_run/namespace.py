"""Namespaces of one shell that do not see one another: the plain notebook and the other one."""

from __future__ import annotations

import contextlib
import io
import sys
import time
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from benchmarks.engine_facts import first_line
from dynamo_ext.numerics.rng_state import HostState, TorchState


@dataclass(frozen=True)
class Ran:
    """What a cell took, printed and raised."""

    seconds: float
    printed: str
    error: BaseException | None

    @property
    def raised(self) -> str:
        """The exception in a few words, or nothing."""
        if self.error is None:
            return ""
        return f"{type(self.error).__name__}: {first_line(str(self.error))}".removesuffix(": ")


class Namespace:
    """A notebook's ``__main__``, with random numbers of its own.

    Attributes
    ----------
    names
        What its cells have bound, and what the shell puts there.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._module = ModuleType("__main__")
        self._shell.prepare_user_module(self._module)
        self.names = self._module.__dict__
        self._numbers = HostState(), TorchState()
        self._come_in()
        self._shell.init_user_ns()

    def run(self, text: str) -> Ran:
        """Run a cell as a notebook does, and keep to itself what it prints."""
        self._come_in()
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
            started = time.perf_counter()
            done = self._shell.run_cell(text, store_history=True)
            seconds = time.perf_counter() - started
        self._numbers = HostState(), TorchState()
        error = done.error_before_exec or done.error_in_exec
        return Ran(seconds, "" if error else printed.getvalue(), error)

    def must_run(self, text: str) -> Ran:
        """Run a cell, and raise what it raises."""
        ran = self.run(text)
        if ran.error is not None:
            raise ran.error
        return ran

    def _come_in(self) -> None:
        self._shell.user_module = self._module
        self._shell.user_ns = self.names
        sys.modules["__main__"] = self._module
        for state in self._numbers:
            state.restore()


def shell() -> InteractiveShell:
    """The process's shell; it keeps no history on disk."""
    config = Config()
    config.HistoryManager.enabled = False
    made: InteractiveShell = InteractiveShell.instance(config=config, colors="nocolor")
    return made
