"""Which vector instructions Inductor's C++ uses: torch compiles and loads a file to find out.

Torch makes the check in each process, and keeps what it compiled in a folder that a restart of the
machine may empty. Here a check that passed is known for as long as compiler, torch and processor
are the same.
"""

import contextlib
import functools
import hashlib
import inspect
import os
import shutil
import threading
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

from dynamo_ext.backends.disk_cache import Table, device_model, processor
from dynamo_ext.torch_private import version

_PASSED, _FAILED = "passed", "failed"
_SEARCHED = ("CPATH", "CPLUS_INCLUDE_PATH", "LIBRARY_PATH", "LD_LIBRARY_PATH", "LD_PRELOAD")
"""Variables by which compilers and the loader find files."""

_Block = Callable[[], contextlib.AbstractContextManager[None]]

_lock = threading.Lock()
_inside = 0
_theirs: tuple[Any, Any] = (None, None)


class Checks(Table):
    """Whether checks passed, by all that they depend on, and the instructions."""

    name = "checks"


@contextlib.contextmanager
def checked_once(first_time: _Block) -> Iterator[None]:
    """Within the block torch makes those checks alone that its choice needs, once on a machine.

    A check of which nothing is known is made in a block of ``first_time``. The choice is the one
    that torch makes. A torch without the names that this needs makes all its checks.
    """
    global _inside, _theirs  # noqa: PLW0603
    if version.missing(version.CHECKS):
        yield
        return
    from torch._inductor import cpu_vec_isa

    with _lock:
        if not _inside:
            check, full = _theirs = cpu_vec_isa.VecISA.check_build, cpu_vec_isa.valid_vec_isa_list
            known = functools.partialmethod(_known, check, first_time)
            _put(known, functools.partial(_needed, full))
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                _put(*_theirs)


def _put(*functions: Any) -> None:
    from torch._inductor import cpu_vec_isa

    cpu_vec_isa.VecISA.check_build, cpu_vec_isa.valid_vec_isa_list = functions  # type: ignore[method-assign]


def _known(isa: Any, check: Callable[[Any, str], bool], first_time: _Block, code: str) -> bool:
    try:
        key, place = _facts(isa, code), str(isa)
    except OSError:
        # Without the compiler's file there is nothing to know it by later.
        return check(isa, code)
    rows = Checks().rows("key = ? AND place = ?", key, place)
    if rows and rows[0][2] == _PASSED:
        return True
    with contextlib.nullcontext() if rows else first_time():
        passed = check(isa, code)
    # One that failed is made again: it may have lacked memory, or time.
    Checks().keep([(key, place, _PASSED if passed else _FAILED, time.time())])
    return passed


def _needed(full: Any) -> list[Any]:
    """What the machine has, best first: no more of it than the choice reads."""
    from torch._inductor import config

    chosen = config.cpp.simdlen is not None or "ATEN_CPU_CAPABILITY" in os.environ
    return full() if chosen else _best(full)


@functools.cache
def _best(full: Any) -> list[Any]:
    from torch._inductor import cpu_vec_isa

    candidates, theirs = cpu_vec_isa.supported_vec_isa_list, inspect.unwrap(full)
    for number in range(1, len(candidates) + 1):
        # Torch's own rules for fewer candidates; its list of all is made when it is asked for.
        names = {**theirs.__globals__, "supported_vec_isa_list": candidates[:number]}
        if found := types.FunctionType(theirs.__code__, names)():
            return found  # type: ignore[no-any-return]
    return []


def _facts(isa: Any, code: str) -> str:
    """A digest of all that a check depends on."""
    from torch._inductor.cpp_builder import (
        CppBuilder,
        CppTorchOptions,
        get_compiler_version_info,
        get_cpp_compiler,
    )

    compiler = get_cpp_compiler()
    library = Path(torch.__file__).parent / "lib"
    files = [Path(shutil.which(compiler) or compiler), *sorted(library.glob("libtorch_cpu*"))]
    facts = (
        code,
        CppBuilder("o", ["i"], CppTorchOptions(vec_isa=isa, warning_all=False)).get_command_line(),
        get_compiler_version_info(compiler),
        torch.__version__,
        *(_file(each) for each in files),
        device_model(torch.device("cpu")),
        processor("flags|Features"),
        *(os.environ.get(each) for each in _SEARCHED),
    )
    return hashlib.sha256(repr(facts).encode()).hexdigest()


def _file(path: Path) -> object:
    real = path.resolve()
    facts = real.stat()
    return str(real), facts.st_size, facts.st_mtime_ns
