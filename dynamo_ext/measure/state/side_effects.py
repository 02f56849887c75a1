"""What code does to the world outside this process, which nothing can put back.

Listens to Python's audit events (PEP 578). A hook cannot be removed again, so there is one for
the process, added by the first comparison; outside of one it returns at once. An event is heard
before it takes place, so that it can also be refused. What is written to the screen, to caches
and, unless effects are refused, to temporary folders is left out.
"""

import builtins
import contextlib
import functools
import io
import os
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC
_EVENTS: dict[str, tuple[str, tuple[int, ...]]] = {
    "open": ("writes", (0,)),
    "os.remove": ("deletes", (0,)),
    "os.rename": ("renames", (0, 1)),
    "os.rmdir": ("deletes the folder", (0,)),
    "os.mkdir": ("makes the folder", (0,)),
    "os.link": ("links", (1,)),
    "os.symlink": ("links", (1,)),
    "os.truncate": ("cuts", (0,)),
    "shutil.rmtree": ("deletes the folder", (0,)),
    "shutil.copyfile": ("copies to", (1,)),
    "shutil.move": ("moves", (0, 1)),
    "sqlite3.connect": ("opens the database", (0,)),
    "socket.connect": ("connects to the network", ()),
    "socket.sendto": ("sends to the network", ()),
    "subprocess.Popen": ("starts a process", ()),
    "os.system": ("starts a process", ()),
    "os.posix_spawn": ("starts a process", ()),
    "os.fork": ("starts a process", ()),
    "os.forkpty": ("starts a process", ()),
    "input": ("asks for input", ()),
    "start": ("starts a thread", ()),
    "save": ("writes", (2,)),
}
"""What each event does, and which of its details are the paths that it changes."""

_CALLS = ((builtins, "input"), (threading.Thread, "start"), (torch, "save"))
"""What has no event: a kernel has an ``input`` of its own, torch writes in C++.

Threads have an event from Python 3.12 on.
"""

WORKERS = "starts processes that work for it"
"""What code does that computes in processes of Python's own or torch's."""

_WORKERS_OF = ("multiprocessing.", "torch.", "triton.")
_CACHES = {"__pycache__", ".cache", "Caches"}
_CACHE_NAMES = {"TORCH_HOME", "HF_HOME", "TRITON_HOME", "MPLCONFIGDIR"}
_PATIENCE = 1.0
"""Seconds to wait for threads that outlive the run that started them."""

_LOOK = 0.01


class RefusedEffectError(BaseException):
    """Raised in the place of an effect; no ``except Exception`` of the user's may handle it."""


@dataclass(frozen=True, eq=False)
class _Listener:
    """Listens to the thread that makes it, and to those that are started from then on."""

    refused: bool
    seen: list[str] = field(default_factory=list)
    caller: int = field(default_factory=threading.get_ident)
    before: frozenset[int] = field(default_factory=lambda: frozenset(sys._current_frames()))  # noqa: SLF001

    def note(self, clause: Callable[[], str]) -> None:
        """Note what an event does, or refuse it."""
        said, thread = "", threading.get_ident()
        # An error here would become the user's.
        with contextlib.suppress(Exception):
            if thread == self.caller or thread not in self.before:
                said = clause()
                if said and said not in self.seen:
                    self.seen.append(said)
        if said and self.refused:
            raise RefusedEffectError

    def wait(self) -> None:
        """Give threads that are still there time for what they write."""
        until = time.monotonic() + _PATIENCE
        started = [each for each in threading.enumerate() if each.ident not in self.before]
        while any(each.is_alive() for each in started) and time.monotonic() < until:
            time.sleep(_LOOK)


_listening: list[_Listener] = []


@contextlib.contextmanager
def effects(files: Iterable[io.IOBase] = (), *, refused: bool = False) -> Iterator[list[str]]:
    """Listen for the length of a ``with`` block to this thread, and to those that it starts.

    The list is of what happened, each once, as clauses: ``writes /home/me/out.csv``. Of ``files``
    that are open, it has those that were written to. Where effects are ``refused``, none takes
    place: ``RefusedEffectError`` is raised instead. Then threads and questions to the user are
    effects, too.
    """
    _add_hook()
    # The first call tries which folder can be written.
    tempfile.gettempdir()
    written = [(file, mark) for file in files if (mark := _mark(file))]
    listener = _Listener(refused)
    _listening.append(listener)
    try:
        with _calls_as_events():
            yield listener.seen
        listener.wait()
    finally:
        _listening.remove(listener)
    for file, mark in written:
        if mark != _mark(file):
            name = file.name  # type: ignore[attr-defined]
            listener.note(functools.partial(_of_paths, "writes", [name], strict=refused))


def _mark(file: io.IOBase) -> tuple[int, int] | None:
    """What changes where an open file is written to; none where that leaves no trace."""
    with contextlib.suppress(Exception):
        if file.writable() and _lasting(file.name):  # type: ignore[attr-defined]
            file.flush()
            found = os.fstat(file.fileno())
            if stat.S_ISREG(found.st_mode) and file not in {sys.__stdout__, sys.__stderr__}:
                return found.st_size, found.st_mtime_ns
    return None


@contextlib.contextmanager
def _calls_as_events() -> Iterator[None]:
    """Make events of calls of ``_CALLS``."""

    def audited(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            sys.audit(name, function, *args, *kwargs.values())
            return function(*args, **kwargs)

        return call

    with contextlib.ExitStack() as left:
        for owner, name in _CALLS:
            function = getattr(owner, name)
            left.callback(setattr, owner, name, function)
            setattr(owner, name, audited(name, function))
        yield


@functools.cache
def _add_hook() -> None:
    sys.addaudithook(functools.partial(_hear, _listening))


def _hear(listening: list[_Listener], event: str, details: tuple[Any, ...]) -> None:
    # Python 3.13 calls it as the process ends, too, when names of modules are gone.
    for each in listening:
        each.note(functools.partial(_clause, event, details, strict=each.refused))


def _clause(event: str, details: tuple[Any, ...], *, strict: bool) -> str:
    """What an audit event did outside this process; empty where it leaves no trace there."""
    verb, places = _EVENTS.get(event, ("", ()))
    passes: dict[str, Callable[[], bool]] = {
        "open": lambda: not details[2] & _WRITING,
        "os.mkdir": lambda: os.path.isdir(details[0]),  # noqa: PTH112 - a path of any kind
        # Of a file in an open folder, a part of deleting that folder, the path is not known.
        "os.remove": lambda: details[1] != -1,
        "os.rmdir": lambda: details[1] != -1,
        # The address of another process of this machine is a path.
        "socket.connect": lambda: not isinstance(details[1], tuple),
        "input": lambda: not strict,
        # tqdm has a thread that watches its bars, and nothing else.
        "start": lambda: not strict or type(details[1]).__module__ == "tqdm._monitor",
        "save": lambda: not isinstance(details[2], (str, os.PathLike)),
    }
    if not verb or (event in passes and passes[event]()):
        return ""
    if places:
        return _of_paths(verb, [details[place] for place in places], strict=strict)
    if "process" in verb and _is_worker():
        return WORKERS
    named = [os.fsdecode(each) for each in details[:1] if isinstance(each, (str, bytes))]
    return " ".join([verb, *named])


def _is_worker() -> bool:
    """Whether Python's own or torch's code starts a process, called by whom it may."""
    frame = sys._getframe()  # noqa: SLF001 - what raised the event is on the stack
    while frame := frame.f_back:  # type: ignore[assignment]
        if (name := frame.f_globals.get("__name__", "")).startswith(_WORKERS_OF):
            return True
        if name.partition(".")[0] not in {*sys.stdlib_module_names, "dynamo_ext"}:
            break
    return False


def _of_paths(verb: str, paths: list[Any], *, strict: bool) -> str:
    found = next(filter(None, (_lasting(each, strict=strict) for each in paths)), "")
    return f"{verb} {found}" if found else ""


def _lasting(path: Any, *, strict: bool = False) -> str:
    """A path in full; empty for the screen, and in caches of libraries and temporary folders.

    Such a folder may hold the current one, whose files are the user's. ``strict`` takes for a cache
    what is called so alone.
    """
    if isinstance(path, int) or not path or b":memory:" in os.fsencode(path):
        return ""
    shown = os.path.abspath(os.fsdecode(path))  # noqa: PTH100 - its links stay
    full, here, home = Path(shown).resolve(), Path.cwd(), Path.home()
    if shown.startswith(("/dev/", "/proc/")) or _CACHES.intersection(full.parts):
        return ""
    if strict:
        return shown
    named = [v for n, v in os.environ.items() if "CACHE" in n or n in _CACHE_NAMES]
    folders = [Path(each).resolve() for each in (tempfile.gettempdir(), *named) if each]
    # Where a program keeps its own things, in ~/.triton; a ~/.netrc is the user's.
    folders += [p for p in full.parents if p.parent == home and p.name.startswith(".")]
    if full.is_relative_to(here):
        folders = [folder for folder in folders if folder not in here.parents]
    return "" if any(map(full.is_relative_to, folders)) else shown
