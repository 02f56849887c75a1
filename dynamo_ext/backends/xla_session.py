"""From a partition to an XLA executable, and the call of it on torch's memory."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import threading
from collections import OrderedDict
from importlib import metadata
from typing import TYPE_CHECKING, Any

from dynamo_ext.backends import forks, xla_import
from dynamo_ext.backends.xla_function import as_function, dtypes, lender

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import torch
    from torch.fx import GraphModule

_STARTING = threading.Lock()

MOST_EXECUTABLES = 256
"""Executables that the trace-every-call engine keeps, the latest used."""


class OutOfRangeError(IndexError):
    """An index or a divisor that torch refuses; eager then says which."""


@functools.cache
def client(kind: str) -> Any:
    """The first JAX device of a kind, ``cpu`` or ``cuda``.

    XLA's CPU client sizes its thread pools once, when it starts, from ``NPROC``. Where nobody
    has started it yet, it gets torch's thread count, and keeps it. See ``Traced.compiled`` for
    a torch that uses one thread.

    Raises
    ------
    RuntimeError
        Where JAX has no such platform.
    """
    forks.begin("XLA")
    xla_import.import_jax()
    import jax
    import torch

    with _STARTING:
        given = os.environ.get("NPROC")
        if given is None:
            os.environ["NPROC"] = str(torch.get_num_threads())
        try:
            with _no_word_at_forks():
                return jax.local_devices(backend=kind)[0]
        finally:
            if given is None:
                del os.environ["NPROC"]


@contextlib.contextmanager
def _no_word_at_forks() -> Iterator[None]:
    """Keep JAX, as it starts, from warning at every later fork: ``!ls`` in a cell is one."""
    register = os.register_at_fork
    os.register_at_fork = lambda **_: None
    try:
        yield
    finally:
        os.register_at_fork = register


def version() -> str:
    """JAX's version and torchax's."""
    return f"jax {metadata.version('jax')}, torchax {metadata.version('torchax')}"


@contextlib.contextmanager
def settings() -> Iterator[None]:
    """What a trace needs of JAX, without touching the user's configuration: 64-bit types."""
    import jax

    with jax.enable_x64(new_val=True), jax.default_matmul_precision("highest"):
        yield


class Traced:
    """What both engines share: specifications, constants, how inputs cross over.

    Parameters
    ----------
    graph
        A partition of fixed shapes, on one device.
    fold
        As for ``as_function``.
    """

    def __init__(self, graph: GraphModule, *, fold: bool) -> None:
        import jax
        import torch

        self.function, constants = as_function(graph, fold=fold)
        examples = [n.meta["val"] for n in graph.graph.nodes if n.op == "placeholder"]
        outputs: Any = graph.graph.output_node().args[0]
        self.count = len(outputs)
        tensors = [v for v in (*examples, *constants) if isinstance(v, torch.Tensor)]
        facts = [*tensors, *(node.meta["val"] for node in outputs)]
        self.kind = facts[0].device.type if facts else "cpu"
        device = client(self.kind)
        place = jax.sharding.SingleDeviceSharding(device)
        self.lenders = [lender(value) for value in examples]
        specification: Any = jax.ShapeDtypeStruct
        with settings():
            # Weights stay where torch has them: JAX sees that memory.
            self.constants = [jax.device_put(lender(c)(c), device) for c in constants]
            self.specs = [
                specification(tuple(v.shape), dtypes()[v.dtype], sharding=place)
                for v in (*constants, *examples)
            ]

    def compiled(self, lowered: Any) -> Any:
        """The executable, in the calling thread alone where torch uses one thread.

        XLA's pool has a thread of its own even then, and each hand-over costs.
        """
        import torch

        single = self.kind == "cpu" and torch.get_num_threads() == 1
        options = {"xla_cpu_multi_thread_eigen": False} if single else {}
        return lowered.compile(compiler_options=options)

    def lowered(self) -> Any:
        """The function, traced anew, as StableHLO."""
        import jax

        def fresh(*values: Any) -> tuple[Any, ...]:
            return self.function(*values)

        with settings():
            return jax.jit(fresh, keep_unused=True).lower(*self.specs)

    def call(self, executable: Any, inputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Run an executable on torch's memory; results belong to the caller."""
        import jax
        import torch

        lent = [lends(value) for lends, value in zip(self.lenders, inputs, strict=True)]
        with jax.enable_x64(new_val=True):
            results = [torch.from_dlpack(r) for r in executable(*self.constants, *lent)]
        if len(results) > self.count and not results.pop():
            message = "An index is out of range, or an integer is divided by zero"
            raise OutOfRangeError(message)
        return results


class Once:
    """A partition traced and compiled once: ``run(*inputs)`` gives a list of tensors."""

    def __init__(self, graph: GraphModule) -> None:
        self._traced = Traced(graph, fold=True)
        self._executable = self._traced.compiled(self._traced.lowered())

    def run(self, *inputs: Any) -> list[torch.Tensor]:
        """Run the executable."""
        return self._traced.call(self._executable, inputs)


_EXECUTABLES: OrderedDict[str, Any] = OrderedDict()


class EveryCall:
    """A partition traced at every call; equal traces share an executable in the whole process."""

    def __init__(self, graph: GraphModule) -> None:
        # Weights in the text would make it, and the digest of it, as large as they are.
        self._traced = Traced(graph, fold=False)
        # Compiled now, so that what fails fails while the graph is compiled.
        executable(self._traced)

    def run(self, *inputs: Any) -> list[torch.Tensor]:
        """Trace, look the executable up, run it."""
        return self._traced.call(executable(self._traced), inputs)


def executable(traced: Traced) -> Any:
    """The executable for a fresh trace, by the SHA-256 of its StableHLO."""
    lowered = traced.lowered()
    key = hashlib.sha256(lowered.as_text().encode()).hexdigest()
    found = _EXECUTABLES.pop(key, None)
    if found is None:
        found = traced.compiled(lowered)
    _EXECUTABLES[key] = found
    while len(_EXECUTABLES) > MOST_EXECUTABLES:
        _EXECUTABLES.popitem(last=False)
    return found
