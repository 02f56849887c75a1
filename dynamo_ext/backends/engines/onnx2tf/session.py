"""TensorFlow's compiled functions on torch's memory."""

import contextlib
import functools
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
from torch.utils.dlpack import from_dlpack, to_dlpack

from dynamo_ext.backends import fork_safety
from dynamo_ext.backends.engines.onnx2tf.ops import table
from dynamo_ext.backends.support.lending import aligned
from dynamo_ext.numerics import rng_state

_LARGE = 1024
"""Bytes from which a constant is lent to the function instead of written into it."""

_LOG = re.compile(
    rb"(WARNING: All log messages before absl|[IWEF]\d{4} |\d{4}-\d\d-\d\d .*: [IWE] )"
)


_NOTED = 30
"""Frames whose code TensorFlow notes at each operation; that of the tenth and on is never let go.

The code that Dynamo made may be among them, and holds the graph and its weights.
"""


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep TensorFlow's C++ side from logging; what others write to stderr comes after."""
    with tempfile.TemporaryFile() as kept:
        sys.stderr.flush()
        before = os.dup(2)
        os.dup2(kept.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(before, 2)
            kept.seek(0)
            for line in kept:
                if not _LOG.match(line):
                    os.write(before, line)
            os.close(before)


@functools.cache
def tensorflow() -> Any:
    """The ``tensorflow`` package, on the CPU and on torch's thread count.

    Where TensorFlow has begun to run before us, its devices and threads stay as they are.
    """
    fork_safety.begin("TensorFlow")
    first, before = "tensorflow" not in sys.modules, set(os.environ)
    if first:
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        with rng_state.host_kept(), _quiet(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import tensorflow as tf

            threads = tf.config.threading
            settings: tuple[Callable[[], Any], ...] = (
                lambda: tf.config.set_visible_devices([], "GPU"),
                lambda: threads.set_intra_op_parallelism_threads(torch.get_num_threads()),
                lambda: threads.set_inter_op_parallelism_threads(1),
            )
            for settle in settings:
                with contextlib.suppress(RuntimeError):
                    settle()
            # The runtime starts here, and logs as it does.
            tf.zeros([])
    finally:
        # Ours, and eight of TensorFlow's: read at import, and the user's processes would get them.
        for name in os.environ.keys() - before if first else ():
            del os.environ[name]
    return tf


@functools.cache
def _dlpack() -> tuple[Callable[[Any], Any], ...]:
    theirs = tensorflow().experimental.dlpack
    return to_dlpack, theirs.from_dlpack, theirs.to_dlpack, from_dlpack


class Session:
    """A partition as one XLA program: ``run(*inputs)`` gives a list of tensors.

    Inputs and large constants are lent by DLPack: nothing is copied, unless an input is not
    row-major. Outputs are allocated by TensorFlow and handed over by DLPack. ``model`` is from
    ``convert.translate``; ``examples`` and ``expected`` have the dtypes and shapes of every call's
    inputs and outputs. Raises ``LoweringError`` for ONNX operations that have no TensorFlow form,
    ``RuntimeError`` where an output is not what torch has.
    """

    def __init__(self, model: Any, examples: Sequence[Any], expected: Sequence[Any]) -> None:
        tf = tensorflow()
        self._model = model
        self._constants, self._lent = _constants(model)
        kinds = [_dtype(tf, value) for value in examples]
        signature = [
            tf.TensorSpec(tuple(map(int, value.shape)), kind)
            for value, kind in zip(examples, kinds, strict=True)
        ]
        function = tf.function(
            self._body, input_signature=signature, jit_compile=True, autograph=False
        )
        with tf.device("/CPU:0"):
            concrete = function.get_concrete_function()
        results = concrete.outputs
        for got, value in zip(results, expected, strict=True):
            shape = tuple(map(int, value.shape))
            if tuple(got.shape) != shape or got.dtype != _dtype(tf, value):
                message = (
                    f"A result is {got.dtype.name} of shape {tuple(got.shape)} where torch has "
                    f"{str(value.dtype).removeprefix('torch.')} of shape {shape}"
                )
                raise RuntimeError(message)
        self._flat = concrete.inference_fn.call_flat
        self._captured = tuple(concrete.captured_inputs)
        # XLA compiles at a first call, which is not to be the user's.
        with _quiet():
            self._call([tf.zeros(spec.shape, spec.dtype) for spec in signature])

    def _body(self, *inputs: Any) -> list[Any]:
        tf = tensorflow()
        return table.evaluate(tf, self._model, self._constants, inputs)

    def _call(self, values: Sequence[Any]) -> Sequence[Any]:
        """Past the public way, which binds names and checks types again."""
        outputs: Sequence[Any] = _from_below(self._flat, (*values, *self._captured), _NOTED)
        return outputs

    def run(self, *inputs: Any) -> list[Any]:
        """Run the program on torch's memory."""
        export, adopt, give, take = _dlpack()
        # Names keep copies alive until the program has run.
        held = [aligned(value) for value in inputs]
        outputs = self._call([adopt(export(value)) for value in held])
        return [take(give(value)) for value in outputs]


def _from_below(call: Callable[..., Any], values: Sequence[Any], frames: int) -> Any:
    """Call from under so many frames of this function's, so that the caller's are not noted."""
    return _from_below(call, values, frames - 1) if frames else call(*values)


def session(model: Any, examples: Sequence[Any], expected: Sequence[Any]) -> Session:
    """A ``Session``, made on a thread of its own: a graph notes the code of the whole stack."""
    tensorflow()
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(Session, model, examples, expected).result()


def _dtype(tf: Any, value: torch.Tensor) -> Any:
    return tf.as_dtype(str(value.dtype).removeprefix("torch."))


def _constants(model: Any) -> tuple[dict[str, Any], list[Any]]:
    """A model's initializers for TensorFlow, and the torch tensors that some of them lie in."""
    found, held = {}, []
    export, adopt, _, _ = _dlpack()
    for name, value in model.graph.initializers.items():
        constant = value.const_value
        raw = getattr(constant, "raw", None)
        if constant.nbytes < _LARGE:
            # Shapes and axes are read while TensorFlow traces.
            found[name] = constant.numpy()
        elif isinstance(raw, torch.Tensor):
            held.append(aligned(raw))
            found[name] = adopt(export(held[-1]))
        else:
            found[name] = tensorflow().convert_to_tensor(constant.numpy())
    return found, held
