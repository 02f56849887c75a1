"""From a partition to an XLA executable, and the call of it on torch's memory."""

import contextlib
import functools
import hashlib
import os
import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
from torch.fx import GraphModule

from dynamo_ext.backends import fork_safety
from dynamo_ext.backends.engines.xla.convert import as_function, dtypes, importer
from dynamo_ext.backends.engines.xla.ops.table import import_jax

_STARTING = threading.Lock()

MAX_EXECUTABLES = 256
"""Executables that the trace-every-call engine keeps, the latest used."""


@functools.cache
def client(kind: str) -> Any:
    """The first JAX device of a kind, ``cpu`` or ``cuda``.

    XLA's CPU client sizes its thread pools once, when it starts, from ``NPROC``. Where it has
    not started yet, it gets torch's thread count, and keeps it. See ``TracedOnce._compiled`` for
    a torch that uses one thread. Its GPU client, which starts with it, would take three quarters
    of the memory for itself.

    Raises ``RuntimeError`` where JAX has no such platform.
    """
    fork_safety.begin("XLA")
    import_jax()
    import jax

    with _STARTING:
        ours = {"NPROC": str(torch.get_num_threads()), "XLA_PYTHON_CLIENT_PREALLOCATE": "false"}
        missing = ours.keys() - os.environ.keys()
        os.environ.update({name: ours[name] for name in missing})
        try:
            # It would have every later fork warn: `!ls` in a cell is one. Windows has none.
            with mock.patch.object(os, "register_at_fork", create=True):
                return jax.local_devices(backend=kind)[0]
        finally:
            for name in missing:
                del os.environ[name]


@contextlib.contextmanager
def settings() -> Iterator[None]:
    """What a trace needs of JAX, without touching the user's configuration: 64-bit types."""
    import jax

    with jax.enable_x64(new_val=True), jax.default_matmul_precision("highest"):
        yield


class TracedOnce:
    """A partition traced and compiled once: ``run(*inputs)`` gives a list of tensors.

    Its shapes are fixed, and it is on one device. ``fold`` is as for ``as_function``.
    """

    def __init__(self, graph: GraphModule, *, fold: bool = True) -> None:
        import jax

        self._function, constants = as_function(graph, fold=fold)
        examples = [n.meta["val"] for n in graph.graph.nodes if n.op == "placeholder"]
        outputs: Any = graph.graph.output_node().args[0]
        tensors = [v for v in (*examples, *constants) if isinstance(v, torch.Tensor)]
        facts = [*tensors, *(node.meta["val"] for node in outputs)]
        self._kind = facts[0].device.type if facts else "cpu"
        device = client(self._kind)
        place = jax.sharding.SingleDeviceSharding(device)
        self._importers = [importer(value) for value in examples]
        specification: Any = jax.ShapeDtypeStruct
        with settings():
            # Weights stay where torch has them: JAX sees that memory.
            self._constants = [jax.device_put(importer(c)(c), device) for c in constants]
            self._specs = [
                specification(tuple(v.shape), dtypes()[v.dtype], sharding=place)
                for v in (*constants, *examples)
            ]
        # What fails shall fail while the graph is compiled.
        self._executable = self._compiled(self.lowered())

    def _compiled(self, lowered: Any) -> Any:
        """The executable, in the calling thread alone where torch uses one thread.

        XLA's pool has a thread of its own even then, and each hand-over costs.
        """
        single = self._kind == "cpu" and torch.get_num_threads() == 1
        options = {"xla_cpu_multi_thread_eigen": False} if single else {}
        return lowered.compile(compiler_options=options)

    def lowered(self) -> Any:
        """The function, traced again, as StableHLO."""
        import jax

        def fresh(*values: Any) -> tuple[Any, ...]:
            return self._function(*values)

        with settings():
            return jax.jit(fresh, keep_unused=True).lower(*self._specs)

    def run(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        """Run the executable on torch's memory; results belong to the caller."""
        import jax

        arrays = [take(value) for take, value in zip(self._importers, inputs, strict=True)]
        with jax.enable_x64(new_val=True):
            returned = self._executable(*self._constants, *arrays)
            return [torch.from_dlpack(each) for each in returned]


_EXECUTABLES: OrderedDict[str, Any] = OrderedDict()


class TracedEveryCall(TracedOnce):
    """A partition traced at every call; equal traces share an executable in the whole process."""

    def __init__(self, graph: GraphModule) -> None:
        # Weights in the text would make it, and the digest of it, as large as they are.
        super().__init__(graph, fold=False)

    def _compiled(self, lowered: Any) -> Any:
        """The executable, by the SHA-256 of its StableHLO."""
        key = hashlib.sha256(lowered.as_text().encode()).hexdigest()
        found = _EXECUTABLES.pop(key, None) or super()._compiled(lowered)
        _EXECUTABLES[key] = found
        while len(_EXECUTABLES) > MAX_EXECUTABLES:
            _EXECUTABLES.popitem(last=False)
        return found

    def run(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        """Trace, look the executable up, run it."""
        self._executable = self._compiled(self.lowered())
        return super().run(*inputs)
