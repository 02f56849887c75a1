"""A notebook with the extension in it, for tests that run real cells."""

from __future__ import annotations

import contextlib
import functools
import io
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from unittest import mock

import torch

import dynamo_ext
from dynamo_ext.backends.disk_cache import Table, folder
from dynamo_ext.capture.cells.turn_trial import Outcomes
from tests.frozen_objects import older_objects_frozen
from tests.magics.shell import Notebook, notebook

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dynamo_ext.records.report import Report


@dataclass
class Ran:
    """What one cell did, with stdout and stderr apart."""

    error: BaseException | None
    out: str
    err: str
    outputs: list[tuple[Any, ...]] = field(default_factory=list)

    @property
    def shown(self) -> str:
        """The traceback that was shown."""
        return "\n".join(out[-1] for out in self.outputs if out[0] == "error")

    @property
    def displays(self) -> list[dict[str, Any]]:
        return [out[1] for out in self.outputs if out[0] == "display"]


class Live:
    """Runs cells in one notebook."""

    def __init__(self, shell: Notebook) -> None:
        self.shell = shell

    @property
    def names(self) -> dict[str, Any]:
        return self.shell.user_ns

    def run(self, text: str, cell_id: str | None = None) -> Ran:
        """Run a cell as a front end does that may know the cell's id."""
        self.shell.outputs = outputs = []
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            done = self.shell.run_cell(text, store_history=True, cell_id=cell_id)
        error = done.error_before_exec or done.error_in_exec
        return Ran(error, out.getvalue(), err.getvalue(), outputs)

    def well(self, text: str, cell_id: str | None = None) -> Ran:
        """Run a cell that must end well and leave stderr alone."""
        ran = self.run(text, cell_id)
        assert ran.error is None, ran.error
        assert not ran.err, ran.err
        return ran

    def report(self, text: str, line: str = "-b eager", cell_id: str | None = None) -> Report:
        """The report of a cell that ends well under the magic."""
        self.well(f"%%dynamo {line} --quiet\n{text}", cell_id)
        return dynamo_ext.last_report()

    def failed(self, text: str, line: str = "-b eager") -> tuple[Ran, Report]:
        """What a cell that raises did, and its report."""
        ran = self.run(f"%%dynamo {line} --quiet\n{text}")
        assert ran.error is not None
        return ran, dynamo_ext.last_report()


@contextlib.contextmanager
def live(*setup: str) -> Iterator[Live]:
    """A fresh notebook with torch imported, where nothing is compiled and no cell is known."""
    torch._dynamo.reset()
    # Other workers keep theirs meanwhile.
    own = functools.partialmethod(Table.__init__, folder() / f"trials-{os.getpid()}.sqlite")
    with mock.patch.object(Outcomes, "__init__", own), notebook() as shell:
        Outcomes().clear()
        shell.run_line_magic("load_ext", "dynamo_ext")
        cells = Live(shell)
        cells.well("\n".join(("import torch", *setup)))
        yield cells
        cells.run("%unload_ext dynamo_ext")
    torch._dynamo.reset()


@contextlib.contextmanager
def counting_compiles(started: list[str] | None = None) -> Iterator[list[str]]:
    """Every compile that Dynamo starts, by its id, in the list that is given or in one of its own."""
    from torch._dynamo.callback import callback_handler

    started = [] if started is None else started

    def note(arguments: Any) -> None:
        started.append(str(arguments.compile_id))

    callback_handler.register_start_callback(note)
    try:
        # The finalisers of what earlier tests left would be captured, too.
        with older_objects_frozen():
            yield started
    finally:
        # A reset of Dynamo has taken it out already.
        if note in callback_handler.start_callbacks:
            callback_handler.remove_start_callback(note)
