"""A notebook in a test: a fresh IPython shell that keeps what it would send to a front end."""

from __future__ import annotations

import atexit
import contextlib
import io
import random
import signal
import sys
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets import Type
from traitlets.config import Config

from tests.corpus.case import MAGIC_LINE, Case

Output = tuple[Any, ...]


class _Stream(io.TextIOBase):
    """A stdout or stderr that notes what is written, in the order of all outputs."""

    encoding = "utf-8"

    def __init__(self, name: str, outputs: list[Output]) -> None:
        self._name = name
        self._outputs = outputs

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if text and self._outputs and self._outputs[-1][:2] == ("stream", self._name):
            self._outputs[-1] = ("stream", self._name, self._outputs[-1][2] + text)
        elif text:
            self._outputs.append(("stream", self._name, text))
        return len(text)


class _Hook(DisplayHook):
    """Keeps each execute result instead of printing it, as a kernel sends it."""

    def write_output_prompt(self) -> None:
        pass

    def write_format_data(self, format_dict: Any, md_dict: Any = None) -> None:
        # IPython counts the results of a run ahead by one, so the prompt number is its own.
        self.shell.outputs.append(("result", self.prompt_count, dict(format_dict), md_dict or {}))

    def finish_displayhook(self) -> None:
        self._is_active = False


class _Publisher(DisplayPublisher):
    """Keeps what is displayed."""

    def publish(
        self,
        data: Any,
        metadata: Any = None,
        source: Any = None,
        *,
        transient: Any = None,
        update: bool = False,
        **kwargs: Any,
    ) -> None:
        self.shell.outputs.append(("display", dict(data), metadata or {}, bool(update)))

    def clear_output(self, wait: bool = False) -> None:
        self.shell.outputs.append(("clear", wait))


class Notebook(InteractiveShell):
    """An InteractiveShell with a front end that is a list."""

    displayhook_class = Type(_Hook)
    display_pub_class = Type(_Publisher)
    outputs: list[Output]

    def __init__(self, **kwargs: Any) -> None:
        self.outputs = []
        super().__init__(**kwargs)

    def _showtraceback(self, etype: Any, evalue: Any, stb: Any) -> None:
        self.outputs.append(("error", getattr(etype, "__name__", str(etype)), "\n".join(stb)))


@dataclass
class CellRun:
    """What one cell did: its outputs in order, how it ended, what it raised, and whether it ran."""

    outputs: list[Output]
    success: bool
    error: BaseException | None
    result: Any
    ran: bool

    @property
    def text(self) -> str:
        """All it wrote to stdout and stderr."""
        return "".join(out[2] for out in self.outputs if out[0] == "stream")


@dataclass
class Session:
    """What a case did in one shell, and the shell's namespace, still alive."""

    shell: Notebook
    magic: bool
    cells: list[CellRun] = field(default_factory=list)
    state: dict[str, Any] = field(default_factory=dict)
    reports: list[Any] = field(default_factory=list)

    def add_report(self) -> None:
        """Keep the report of the cell that has just run under the magic, if it made one."""
        import dynamo_ext
        from dynamo_ext.errors import NoReportError

        try:
            report = dynamo_ext.last_report()
        except NoReportError:
            return
        if not any(report is known for known in self.reports):
            self.reports.append(report)

    @property
    def graphs(self) -> list[Any]:
        """Every graph of every cell, in order."""
        return [graph for report in self.reports for graph in report.graphs]

    @property
    def namespace(self) -> dict[str, Any]:
        return self.shell.user_ns


def _show_warning(message: Any, category: Any, filename: str, lineno: int, *rest: Any) -> None:
    line = rest[1] if len(rest) > 1 else None
    sys.stderr.write(warnings.formatwarning(message, category, filename, lineno, line))


def _default_warnings() -> None:
    """The filters and the printing that a kernel starts with."""
    warnings.resetwarnings()
    for quiet in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
        warnings.simplefilter("ignore", quiet)
    warnings.filterwarnings("default", category=DeprecationWarning, module="__main__")
    warnings.showwarning = _show_warning


@contextlib.contextmanager
def interruptible() -> Iterator[None]:
    """Have SIGINT interrupt, as it does in a kernel's cell.

    A run that a shell has started in the background ignores it.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def notebook() -> Iterator[Notebook]:
    """A fresh shell that is ``get_ipython()`` and ``__main__``; all is put back at the end."""
    config = Config()
    config.HistoryManager.enabled = False
    saved = {name: sys.modules.get(name) for name in ("__main__",)}
    streams = sys.stdout, sys.stderr, sys.displayhook, sys.excepthook
    path = list(sys.path)
    Notebook.clear_instance()
    InteractiveShell.clear_instance()
    try:
        with interruptible(), warnings.catch_warnings():
            _default_warnings()
            main = ModuleType("__main__", doc="Automatically created module for IPython")
            shell = Notebook.instance(
                config=config, user_module=main, colors="nocolor", banner1="", banner2=""
            )
            shell.run_line_magic("colors", "nocolor")
            yield shell
    finally:
        sys.stdout, sys.stderr, sys.displayhook, sys.excepthook = streams
        sys.path[:] = path
        for name, module in saved.items():
            if module is not None:
                sys.modules[name] = module
        # IPython would keep every shell until the interpreter ends.
        atexit.unregister(shell.atexit_operations)
        Notebook.clear_instance()
        InteractiveShell.clear_instance()


def run_cell(shell: Notebook, text: str) -> CellRun:
    """Run one cell as a front end would, with stdout and stderr kept."""
    shell.outputs = outputs = []
    with (
        contextlib.redirect_stdout(_Stream("stdout", outputs)),  # type: ignore[type-var]
        contextlib.redirect_stderr(_Stream("stderr", outputs)),  # type: ignore[type-var]
    ):
        done = shell.run_cell(text, store_history=True)
    error = done.error_before_exec or done.error_in_exec
    return CellRun(outputs, done.success, error, done.result, done.error_before_exec is None)


def seed() -> None:
    """The same random numbers in every session."""
    import numpy as np
    import torch

    random.seed(1234)
    np.random.seed(1234)
    torch.manual_seed(1234)


def global_state() -> dict[str, Any]:
    """What a cell may have changed outside its namespace."""
    import numpy as np
    import torch

    name, keys, *rest = np.random.get_state()
    return {
        "python random state": random.getstate(),
        "numpy random state": (name, keys.tolist(), *rest),
        "torch random state": torch.get_rng_state().tolist(),
        "grad mode": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "default dtype": torch.get_default_dtype(),
        "autocast": torch.is_autocast_enabled("cpu"),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "last exception": type(getattr(sys, "last_value", None)).__name__,
        "trace function": sys.gettrace(),
        "profile function": sys.getprofile(),
        "recursion limit": sys.getrecursionlimit(),
    }


def run_case(case: Case, *, magic: bool, line: str = MAGIC_LINE) -> Session:
    """Run a case's cells in a fresh shell, plainly or under the magic."""
    import torch

    sys.last_value = None
    with notebook() as shell:
        session = Session(shell, magic)
        if magic:
            shell.run_line_magic("load_ext", "dynamo_ext")
        seed()
        for number in range(1, len(case.cells) + 1):
            text = case.text(number, line if magic else None)
            session.cells.append(run_cell(shell, text))
            if magic and number in case.magic_cells:
                session.add_report()
        session.state = global_state()
    torch.set_grad_enabled(True)
    torch.set_default_dtype(torch.float32)
    return session
