"""This CPU as a TVM target, proved in a process of its own before it is used here.

TVM's code generation has ended processes on some CPUs; a crash in a notebook's kernel loses the
session. So a target that is new compiles and runs a product in a child process first, and the
answer is kept on disk.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

PROOF_SECONDS = 180
"""How long the child may take; importing TVM is most of it."""

_PROOF = """
import sys
import numpy as np
import tvm
from tvm import te
target = tvm.target.Target({"kind": "llvm", "mcpu": sys.argv[1], "num-cores": int(sys.argv[2])})
a, b = (te.placeholder((64, 64), "float32") for _ in range(2))
k = te.reduce_axis((0, 64))
c = te.compute((64, 64), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
f = te.create_prim_func([a, b, c]).with_attr("global_symbol", "main")
s = tvm.s_tir.Schedule(tvm.IRModule({"main": f}))
i, j, r = s.get_loops(s.get_sblock("c"))
o, v = s.split(j, [None, 16])
s.reorder(i, o, r, v)
s.parallel(i)
s.vectorize(v)
s.decompose_reduction(s.get_sblock("c"), r)
run = tvm.compile(s.mod, target=target)["main"]
x, y = (np.random.rand(64, 64).astype("float32") for _ in range(2))
z = tvm.runtime.tensor(np.zeros((64, 64), "float32"))
run(tvm.runtime.tensor(x), tvm.runtime.tensor(y), z)
assert np.allclose(z.numpy(), x @ y, atol=1e-3)
"""


class TargetError(RuntimeError):
    """TVM's code for this CPU did not work in a process of its own."""


def cache_folder() -> Path:
    """Where answers and tuning records are kept: the user's cache, or ``XDG_CACHE_HOME``."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "dynamo_ext" / "tvm"


def prepare_threads() -> None:
    """Let TVM's threads be as many as torch's, and leave it to the system where they run.

    Read by TVM when its first parallel loop starts.
    """
    import torch

    os.environ.setdefault("TVM_NUM_THREADS", str(torch.get_num_threads()))
    # Bound threads would share their cores with torch's, which are not.
    os.environ.setdefault("TVM_BIND_THREADS", "0")


@functools.cache
def package() -> Any:
    """The ``tvm`` package, imported once the threads are settled."""
    prepare_threads()
    import tvm

    return tvm


def version() -> str:
    """TVM's version."""
    return str(package().__version__)


def has_llvm() -> bool:
    """Whether this TVM can compile for a CPU."""
    return bool(package().runtime.enabled("llvm"))


def cores() -> int:
    """How many cores this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:
        return os.cpu_count() or 1


@functools.cache
def target() -> Any:
    """The ``tvm.target.Target`` of this CPU.

    Raises
    ------
    TargetError
        Where a child process that used it failed.
    """
    tvm = package()
    cpu = str(tvm.target.codegen.llvm_get_system_cpu())
    count = cores()
    failure = _proved(version(), cpu, count)
    if failure:
        raise TargetError(failure)
    return tvm.target.Target({"kind": "llvm", "mcpu": cpu, "num-cores": count})


def _proved(release: str, cpu: str, count: int) -> str:
    """What went wrong with a target in a child process; empty where nothing did."""
    digest = hashlib.sha256(_PROOF.encode()).hexdigest()[:12]
    path = cache_folder() / f"target-{release}-{cpu}-{count}-{digest}.json"
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["failure"])
    except (OSError, ValueError, KeyError):
        pass
    command = [sys.executable, "-c", _PROOF, cpu, str(count)]
    try:
        done = subprocess.run(  # noqa: S603 - this interpreter, our own text
            command, capture_output=True, text=True, timeout=PROOF_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        # A busy machine, perhaps: the next process asks again.
        return f"TVM's code for {cpu} did not finish in {PROOF_SECONDS} seconds."
    failure = ""
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["no word"])[-1]
        failure = f"TVM's code for {cpu} failed with exit status {done.returncode}: {said}"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps({"failure": failure}), encoding="utf-8")
    except OSError:
        pass
    return failure
