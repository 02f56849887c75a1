"""The ``%%dynamo`` and ``%dynamo`` magics: parse, call, hand to the widgets."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class, no_var_expand
from IPython.core.magic_arguments import argument, magic_arguments

from dynamo_ext.errors import DynamoExtError
from dynamo_ext.interruptions import interrupts_later
from dynamo_ext.magics.argument_errors import closest, parse, refuse
from dynamo_ext.magics.arguments import (
    COMMANDS,
    COMPARE,
    MODES,
    PARTS,
    cell_arguments,
    given,
    shared,
    unquoted,
)
from dynamo_ext.magics.completion import dynamo_matcher
from dynamo_ext.magics.plain_runs import PlainRuns
from dynamo_ext.widgets.progress import LOADING_PATIENCE, PATIENCE, Waiting

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from dynamo_ext.magics.workbench import Workbench


@magics_class
class DynamoMagics(Magics):
    """The magics of one shell. torch and the backends load when a cell first needs them."""

    def __init__(self, shell: InteractiveShell) -> None:
        super().__init__(shell)
        self._own_shell = shell
        self._workbench: Workbench | None = None
        self._plain_runs = PlainRuns(shell)

    @property
    def workbench(self) -> Workbench:
        """The state behind the magics: programs, default backend, last report."""
        if self._workbench is None:
            try:
                # torch._dynamo, once half imported, cannot be imported again.
                with interrupts_later():
                    from dynamo_ext.magics.workbench import Workbench

                    self._workbench = Workbench(self._own_shell, self._plain_runs)
            except KeyboardInterrupt as error:
                from dynamo_ext.magics.cell_errors import show_as

                show_as(error, "stopped before the cell began.")
                raise
        return self._workbench

    def close(self) -> None:
        """Let go of everything that was compiled."""
        self._plain_runs.close()
        if self._workbench is not None:
            self._workbench.close()

    @magic_arguments("%dynamo")
    @argument("mode", nargs="?", choices=MODES, default="optimize", help="optimize (default): "
              "compile what is new, reuse the rest; run: reuse only, never compile")  # fmt: skip
    @argument("-b", "--backend", type=given, help="a backend's name (%%dynamo backends "
              "lists them) or a Python expression: a dynamo_ext.Backend, or a function "
              "(GraphModule, example_inputs) -> callable")  # fmt: skip
    @argument("--dynamic", action="store_true", help="symbolic sizes from the start")
    @argument("--static", action="store_true", help="no symbolic sizes: compile for each shape")
    @argument("--fullgraph", action="store_true", help="raise on a graph break; not with run, "
              "which never compiles")  # fmt: skip
    @argument("--profile", action="store_true", help="also time every captured operation in eager, "
              "one by one, at each graph's first call")  # fmt: skip
    @argument("--strict", action="store_true", help="raise where the backend is not available")
    @argument("--first-run", type=given, metavar="SECONDS", help="what may go into capturing and "
              "compiling in one run (4 on eager, 40 on auto, else 20; none: no limit); what is not "
              "reached by then runs in Python, and the next run goes on with it")  # fmt: skip
    @argument("--capture", default="", choices=("all",), help="all: turns of loops that are "
              "faster in Python are captured, too")  # fmt: skip
    @shared
    @no_var_expand
    @line_cell_magic
    def dynamo(self, line: str, cell: str | None = None) -> None:
        """Run a cell through TorchDynamo on the backend of your choice.

        ::

            %%dynamo -b onnxrt
            y = model(x)            # captured, compiled, run; then a report of what happened

            %%dynamo run            # the same cell text again: reuses, never compiles
            y = model(x)

            %%dynamo compare -b inductor,onnxrt     # which is faster here, and is it right?
            y = model(x)            # (%%dynamo compare -h lists its own flags)

        The cell behaves exactly as a plain cell: names, output, errors. What cannot be captured,
        compiled or trusted runs eagerly, and the report says so.

        Without a cell::

            %dynamo backends        # what can run here, and what is missing where it cannot
            %dynamo backends NAME   # one backend and its options
            %dynamo explain EXPR    # capture an expression, run it eagerly, time its
                                    # operations, report
            %dynamo report          # the last report again; --markdown: as text for an issue
            %dynamo graphs          # one part of it; so do guards, breaks and fallbacks
            %dynamo history         # the runs of this session
            %dynamo diff            # what changed since this cell's last run; diff 5 7 for
                                    # any two cells
            %dynamo use BACKEND     # the default for later cells
            %dynamo off             # %%dynamo cells are plain cells until %dynamo on
            %dynamo reset           # forget everything compiled
            %dynamo cache           # the races that auto remembers: show, clear,
                                    # export FILE, import FILE
            %dynamo machine         # what this machine can do at most, beside which reports
                                    # and comparisons show what is reached
        """
        try:
            if cell is None:
                self._command(line)
            else:
                self._cell(line, cell)
        except DynamoExtError as error:
            raise UsageError(str(error)) from None

    def _cell(self, line: str, cell: str) -> None:
        first, _, rest = line.strip().partition(" ")
        if first == COMPARE:
            self._compare(line, rest, cell)
            return
        parsed = parse(self.dynamo.parser, line)
        if parsed.help:
            print(_help(self.dynamo.__doc__))  # noqa: T201 - a magic's help goes to stdout
            return
        asked = cell_arguments(parsed)
        with self._waiting("Compiling", quiet=asked.quiet) as waiting:
            self.workbench.run_cell(line, cell, asked, waiting)

    def _compare(self, line: str, rest: str, cell: str) -> None:
        from dynamo_ext.magics.compare_arguments import HELP, compare_arguments, parser

        arguments = compare_arguments(rest)
        if arguments is None:
            print(HELP + _help(parser().format_help()))  # noqa: T201 - help goes to stdout
            return
        with self._waiting("Comparing", 0.0) as waiting:
            self.workbench.compare_cell(line, cell, arguments, waiting)

    @contextlib.contextmanager
    def _waiting(
        self, title: str, patience: float = PATIENCE, *, quiet: bool = False
    ) -> Iterator[Waiting]:
        """What says how far a cell is; first that torch._dynamo loads, which takes seconds once."""
        with Waiting(title, patience) as waiting:
            started, known = time.perf_counter(), self._workbench
            if known is None and not quiet:
                waiting.tell("loading torch._dynamo", LOADING_PATIENCE)
            loaded = self.workbench
            took = time.perf_counter() - started
            loaded.loads = () if known else (("torch._dynamo", took),)
            waiting.tell("")
            yield waiting

    def _command(self, line: str) -> None:
        words = line.split()
        name, rest = (words[0], words[1:]) if words else ("", [])
        if name in {"-h", "--help", "help"}:
            print(_help(self.dynamo.__doc__))  # noqa: T201
            return
        if name in {*MODES, COMPARE} or (name.startswith("-") and name):
            msg = f"%dynamo {name} needs a cell: write %%dynamo {line} on its first line"
            msg += ", and the code below it."
            raise UsageError(msg)
        if name not in COMMANDS:
            lack = f"%dynamo {name} is not known." if name else "%dynamo needs a command."
            near = closest(name, COMMANDS)
            lack += f" Did you mean {near}?" if near else ""
            msg = f"{lack} There are: {', '.join(COMMANDS)}; and %%dynamo on a cell."
            raise UsageError(msg)
        fewest, most, _ = COMMANDS[name]
        if not fewest <= len(rest) <= most:
            refuse(name)
        if name in PARTS:
            self.workbench.part_command(name)
        elif name == "explain":
            with self._waiting("Explaining") as waiting:
                expression = line.strip().removeprefix(name).strip()
                asked = cell_arguments(parse(self.dynamo.parser, "-b eager --profile"))
                asked.mode = name
                # The report is what was asked for, not the value.
                self.workbench.run_cell(name, expression, asked, waiting, silent=True)
        elif name == "cache":
            from dynamo_ext.api.cache import cache

            print(cache(*map(unquoted, rest)))  # noqa: T201 - a magic's answer goes to stdout
        elif name == "machine":
            from dynamo_ext.magics.machine_command import machine_command

            machine_command()
        elif said := getattr(self.workbench, f"{name}_command")(*rest):
            print(said)  # noqa: T201 - a magic's answer goes to stdout


def _help(text: str) -> str:
    """A help text without the marks that are for documentation tools."""
    text = re.sub(r"^[ ]*::\n\n?", "", text, flags=re.MULTILINE)
    return text.replace("::\n", ":\n")


def load(shell: InteractiveShell) -> None:
    """Add the magics and their completion to a shell."""
    shell.register_magics(DynamoMagics(shell))
    completer: Any = shell.Completer
    if dynamo_matcher not in completer.custom_matchers:
        completer.custom_matchers.append(dynamo_matcher)


def unload(shell: InteractiveShell) -> None:
    """Take everything out again, and let go of what was compiled."""
    manager: Any = shell.magics_manager
    magics = manager.registry.pop(DynamoMagics.__name__, None)
    for kind in ("line", "cell"):
        manager.magics[kind].pop("dynamo", None)
    completer: Any = shell.Completer
    if dynamo_matcher in completer.custom_matchers:
        completer.custom_matchers.remove(dynamo_matcher)
    if magics is not None:
        magics.close()
