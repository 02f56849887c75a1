"""The CPU here as a TVM target, proved in a process of its own before it is used here.

TVM's code generation has ended processes on some CPUs; a crash in a notebook's kernel loses the
session. So a target that is new compiles and runs a product in a child process first, and the
answer is kept on disk.
"""

import contextlib
import functools
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import torch

from dynamo_ext.backends import disk_cache

PROOF_SECONDS = 180
"""How long the child may take; importing TVM is most of it."""

_PROOF = """
import sys
import numpy as np
import tvm
from tvm import te
target = tvm.target.Target({"kind": "llvm", "mcpu": sys.argv[1]})
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
    """Where answers and tuning records are kept: in the cache folder."""
    return disk_cache.folder() / "tvm"


@functools.cache
def package() -> Any:
    """The ``tvm`` package, imported once the threads are settled."""
    threads()
    import tvm

    return tvm


def threads() -> int:
    """How many threads TVM's parallel loops use in this process: by default as many as torch's.

    They run where the system likes, and soon go to sleep. TVM reads the settings when its first
    parallel loop starts.
    """
    os.environ.setdefault("TVM_NUM_THREADS", str(torch.get_num_threads()))
    # Bound threads would share their cores with torch's, which are not.
    os.environ.setdefault("TVM_BIND_THREADS", "0")
    # Yields before a waiting thread sleeps: by default it takes a core for 0.9 s after each call,
    # in which eager, and any other engine, has one core less.
    os.environ.setdefault("TVM_THREAD_POOL_SPIN_COUNT", "1000")
    return int(os.environ["TVM_NUM_THREADS"])


def version() -> str:
    """TVM's version."""
    return str(package().__version__)


def has_llvm() -> bool:
    """Whether this TVM can compile for a CPU."""
    return bool(package().runtime.enabled("llvm"))


def cpu() -> str:
    """The CPU's name, as LLVM calls it."""
    return str(package().target.codegen.llvm_get_system_cpu())


@functools.cache
def target() -> Any:
    """The ``tvm.target.Target`` of this CPU.

    Raises ``TargetError`` where a child process that used it failed.
    """
    if failure := proof():
        raise TargetError(failure)
    return package().target.Target({"kind": "llvm", "mcpu": cpu(), "num-cores": threads()})


@functools.cache
def proof() -> str:
    """What went wrong in a child process that compiled for this CPU: a sentence, or nothing."""
    import tvm_ffi

    digest = hashlib.sha256(_PROOF.encode()).hexdigest()[:12]
    versions = f"{version()}-{tvm_ffi.__version__}"
    path = cache_folder() / f"target-{versions}-{cpu()}-{digest}.json"
    with contextlib.suppress(OSError, ValueError):
        return str(json.loads(path.read_text(encoding="utf-8")))
    command = [sys.executable, "-c", _PROOF, cpu()]
    try:
        done = subprocess.run(  # noqa: S603 - this interpreter, our own text
            command, capture_output=True, text=True, timeout=PROOF_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        # A busy machine, perhaps: the next process asks again.
        return f"TVM's code for {cpu()} did not finish in {PROOF_SECONDS} seconds."
    last = (done.stderr.strip().splitlines() or ["no message"])[-1]
    failure = f"TVM fails for {cpu()} with exit status {done.returncode}: {last}"
    found = failure if done.returncode else ""
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(found), encoding="utf-8")
    return found
