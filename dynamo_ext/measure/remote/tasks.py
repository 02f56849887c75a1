"""What is compared, in a form that another process can rebuild it from."""

import builtins
import dis
import itertools
import linecache
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from dynamo_ext.capture.cells.program import CellProgram
from dynamo_ext.capture.code.dynamo_globals import HiddenNames
from dynamo_ext.capture.code.function_code import codes_within
from dynamo_ext.errors import OptionError
from dynamo_ext.measure.workload import CellWorkload, FunctionWorkload, Workload, title_of
from dynamo_ext.records.common import CodeBlock

REMEDY = (
    "Compare it in this process (without isolate or an executor), or create it inside the "
    "compared code."
)

_NEEDS = frozenset(
    {"LOAD_NAME", "LOAD_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS", "DELETE_NAME", "DELETE_GLOBAL"}
)
_READS_ALL = frozenset({"eval", "exec", "globals", "locals", "vars", "dir"})
_SHELL = frozenset({"In", "Out", "exit", "quit", "open", "get_ipython"})


@dataclass(frozen=True)
class FunctionTask:
    """A function or module and its arguments; see ``workload.FunctionWorkload``."""

    target: Callable[..., Any]
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)

    cell: ClassVar[None] = None
    left_out: ClassVar[Mapping[str, str]] = types.MappingProxyType({})

    @property
    def title(self) -> str:
        """As that of its workload."""
        return title_of(self.target)

    @property
    def namespace(self) -> dict[str, Any]:
        """The globals whose functions are sent by value."""
        return vars(sys.modules["__main__"])

    def sendable(self, why_not: Callable[[Any], str]) -> Self:
        """Itself; raises ``OptionError``, which names the argument, where one cannot be sent.

        ``why_not`` says why a value cannot be sent, or nothing.
        """
        parts = {"The code": self.target}
        parts |= {f"args[{index}]": value for index, value in enumerate(self.args)}
        parts |= {f"The argument {name}": value for name, value in self.kwargs.items()}
        for name, value in parts.items():
            if reason := why_not(value):
                message = f"{name} cannot be sent to another process ({reason})."
                raise OptionError(message, REMEDY)
        return self

    def workload(self, namespace: dict[str, Any], *, train: bool) -> Workload:  # noqa: ARG002
        """The workload, in the process that measures it."""
        return FunctionWorkload(self.target, self.args, self.kwargs, train=train)


@dataclass(frozen=True)
class CellTask:
    """A cell, and the values that it reads.

    The code of ``program`` travels as it is, so that the shell's own transformations of it do too.
    ``values`` are by name what the cell reads of ``namespace``, which is not sent; what functions
    read comes with them. ``left_out`` are names that cannot be sent, and why.
    """

    program: CellProgram
    values: dict[str, Any]
    title: str
    left_out: Mapping[str, str] = field(default_factory=dict)
    namespace: dict[str, Any] = field(default_factory=dict, repr=False)
    cell: CodeBlock | None = None

    @classmethod
    def of(
        cls,
        program: CellProgram,
        namespace: dict[str, Any],
        title: str,
        cell: CodeBlock | None = None,
    ) -> Self:
        """The task of a cell in the user's namespace."""
        read = set(names_in(program))
        if read & _READS_ALL:
            read |= {name for name in namespace if not name.startswith("_")} - _SHELL
        values = {name: namespace[name] for name in sorted(read) if name in namespace}
        # The shell gives cells names through the builtins: `display`.
        for name in sorted(read - values.keys()):
            value = getattr(builtins, name, None)
            if getattr(value, "__module__", "builtins") not in {"builtins", "_io", "_sitebuiltins"}:
                values[name] = value
        return cls(program, values, title, {}, namespace, cell)

    def __reduce__(self) -> tuple[Any, ...]:
        return CellTask, (self.program, self.values, self.title, dict(self.left_out))

    def sendable(self, why_not: Callable[[Any], str]) -> Self:
        """The task without the values that cannot be sent."""
        lost = {name: why for name, value in self.values.items() if (why := why_not(value))}
        kept = {name: value for name, value in self.values.items() if name not in lost}
        return replace(self, values=kept, left_out={**self.left_out, **lost})

    def workload(self, namespace: dict[str, Any], *, train: bool) -> Workload:
        """The workload, in the process that measures it."""
        remember_source(self.program.filename, self.program.source)
        namespace.update(self.values)
        names = HiddenNames(namespace)
        return CellWorkload(self.program, namespace, names, title=self.title, train=train)


Task = FunctionTask | CellTask


def remember_source(filename: str, source: str) -> None:
    """Let tracebacks and ``inspect`` find a source that has no file here."""
    linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)


def names_in(program: CellProgram) -> Iterator[str]:
    """The names that a cell reads from its namespace or deletes there; attributes are none."""
    for code in itertools.chain.from_iterable(map(codes_within, program.statement_codes)):
        for step in dis.get_instructions(code):
            if step.opname in _NEEDS:
                yield str(step.argval)
