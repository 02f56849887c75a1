"""TensorFlow's compiled functions on torch's memory."""

import contextlib
import functools
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.utils.dlpack import from_dlpack, to_dlpack

from dynamo_ext.backends import fork_safety
from dynamo_ext.backends.base import CompiledFn
from dynamo_ext.backends.support.lending import aligned
from dynamo_ext.numerics import rng_state

_LARGE = 1024
"""Bytes from which a constant is lent to the function instead of written into it."""

_LOG = re.compile(rb"WARNING: All log messages before absl|[IWEF]\d{4} |\d{4}-\d\d-\d\d .*: [IWE] ")
_NOTED = 30
"""Frames whose code TensorFlow notes at each operation and may keep: Dynamo's hold weights."""


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Keep TensorFlow's C++ side from logging; what others write to stderr comes after."""
    sys.stderr.flush()
    with tempfile.TemporaryFile() as kept, os.fdopen(os.dup(2), "wb") as stderr:
        os.dup2(kept.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(stderr.fileno(), 2)
            kept.seek(0)
            stderr.writelines(line for line in kept if not _LOG.match(line))


@functools.cache
def tensorflow() -> Any:
    """The package, on the CPU and on torch's thread count where it has not begun to run before."""
    fork_safety.begin("TensorFlow")
    before = set(os.environ)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    try:
        with rng_state.host_kept(), _quiet():
            import tensorflow as tf

            with contextlib.suppress(RuntimeError):
                tf.config.set_visible_devices([], "GPU")
                tf.config.threading.set_intra_op_parallelism_threads(torch.get_num_threads())
                tf.config.threading.set_inter_op_parallelism_threads(1)
            # The runtime starts here, and logs as it does.
            tf.zeros([])
    finally:
        # Ours, and eight of TensorFlow's: read at import, and the user's processes would get them.
        for name in os.environ.keys() - before:
            del os.environ[name]
    return tf


def compiled(model: Any, examples: Sequence[Any], expected: Sequence[Any]) -> CompiledFn:
    """A partition as one XLA program, which takes tensors and gives a list of them.

    Inputs and large constants are lent: nothing is copied, unless an input is not row-major.
    ``model`` is from ``convert.translate``; ``examples`` and ``expected`` have the dtypes and
    shapes of every call's inputs and outputs. Raises ``LoweringError`` for operations that have no
    TensorFlow form, ``RuntimeError`` where an output is not what torch has.
    """
    from dynamo_ext.backends.engines.onnx2tf import operations

    tf = tensorflow()
    constants = {name: _constant(v.const_value) for name, v in model.graph.initializers.items()}
    body = functools.partial(operations.evaluate, model, constants)
    signature = [tf.TensorSpec(*_facts(value)) for value in examples]
    function = tf.function(body, signature, autograph=False, jit_compile=True)
    with tf.device("/CPU:0"):
        concrete = function.get_concrete_function()
    for output, value in zip(concrete.outputs, expected, strict=True):
        found, torchs = (tuple(output.shape), output.dtype.name), _facts(value)
        if found != torchs:
            message = "A result is {1} of shape {0} where torch has {3} of shape {2}"
            raise RuntimeError(message.format(*found, *torchs))
    # Past the public way, which binds names and checks types again.
    flat, captured = concrete.inference_fn.call_flat, tuple(concrete.captured_inputs)
    # XLA compiles at a first call, which is not to be the user's.
    with _quiet():
        flat(*(tf.zeros(*_facts(value)) for value in examples), *captured)
    dlpack = tf.experimental.dlpack

    def run(*inputs: torch.Tensor) -> list[torch.Tensor]:
        lent = [dlpack.from_dlpack(to_dlpack(aligned(value))) for value in inputs]
        outputs = _from_below(flat, (*lent, *captured), _NOTED)
        return [from_dlpack(dlpack.to_dlpack(value)) for value in outputs]

    return run


def _from_below(call: Callable[..., Any], values: Sequence[Any], frames: int) -> Any:
    """Call from under so many frames of this function's, so that the caller's are not noted."""
    return _from_below(call, values, frames - 1) if frames else call(*values)


def _facts(value: torch.Tensor) -> tuple[tuple[int, ...], str]:
    """A tensor's shape, and TensorFlow's name for its dtype."""
    return tuple(map(int, value.shape)), str(value.dtype).removeprefix("torch.")


def _constant(constant: Any) -> Any:
    """An initializer for TensorFlow, which is lent torch's memory where it is large."""
    raw = getattr(constant, "raw", None)
    if constant.nbytes < _LARGE or not isinstance(raw, torch.Tensor):
        return constant.numpy()
    return tensorflow().experimental.dlpack.from_dlpack(to_dlpack(aligned(raw)))
