"""Backends that are functions of others: a user's callable, or one registered with torch."""

import hashlib
import inspect
from collections.abc import Callable
from typing import Any

import torch

from dynamo_ext.backends import torch_registered
from dynamo_ext.backends.base import Lowered, LoweringRequest, WholeGraphBackend
from dynamo_ext.backends.torch_private import aot, backend_registry
from dynamo_ext.errors import OptionError
from dynamo_ext.records.common import Availability


class CallableBackend(WholeGraphBackend):
    """A user's ``(graph, example_inputs) -> callable``, with eager behind it.

    Raises ``OptionError`` where it is given anything else, as far as that shows.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        if not _is_compiler(function):
            what = getattr(function, "__name__", f"This {type(function).__name__}")
            message = f"{what} is not a backend."
            raise OptionError(message, _REMEDY)
        self.function = function
        self.name = str(getattr(function, "__name__", type(function).__name__))
        self.summary = f"The function {self.name}"

    def probe(self) -> Availability:
        """A callable is there because it was passed; its version is its code."""
        code = getattr(self.function, "__code__", None)
        version = "" if code is None else hashlib.sha256(code.co_code).hexdigest()[:16]
        return Availability(available=True, version=version)

    def lower_for(self, request: LoweringRequest) -> Lowered:
        """Call the function."""
        with aot.donating_nothing():
            return Lowered(self.function(request.graph, list(request.inputs)))


def _is_compiler(value: Any) -> bool:
    kind = value if isinstance(value, type) else type(value)
    if issubclass(kind, torch.nn.Module) or not callable(value):
        return False
    try:
        inspect.signature(value).bind(None, None)
    except ValueError:
        return True  # What is written in C may not tell.
    except TypeError:
        return False
    return True


_REMEDY = (
    "Give a name, a dynamo_ext.Backend, or a function (GraphModule, example_inputs) -> callable; "
    'to compile a model or a function, write dynamo_ext.optimize("onnxrt")(model).'
)


class TorchBackend(CallableBackend):
    """A name in torch's registry, looked up when it is first used."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.summary = torch_registered.summary(name)

    def probe(self) -> Availability:
        """What is known of torch's backend of this name."""
        return torch_registered.availability(self.name)

    def lower_for(self, request: LoweringRequest) -> Lowered:
        """Look the function up and call it."""
        self.function = backend_registry.torch_backend(self.name)
        return super().lower_for(request)
