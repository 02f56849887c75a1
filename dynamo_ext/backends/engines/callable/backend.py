"""Backends that are functions of others: a user's callable, or one registered with torch."""

import hashlib
from collections.abc import Callable
from typing import Any

from torch.fx import GraphModule

from dynamo_ext.backends import torch_registered
from dynamo_ext.backends.base import CompiledFn, Inputs, Options, WholeGraphBackend
from dynamo_ext.backends.torch_private import aot, backend_registry
from dynamo_ext.records.common import Availability


class CallableBackend(WholeGraphBackend):
    """A user's ``(graph, example_inputs) -> callable``, with eager behind it."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.name = str(getattr(function, "__name__", type(function).__name__))
        self.summary = f"The function {self.name}"

    def probe(self) -> Availability:
        """A callable is there because it was passed; its version is its code."""
        code = getattr(self.function, "__code__", None)
        version = "" if code is None else hashlib.sha256(code.co_code).hexdigest()[:16]
        return Availability(available=True, version=version)

    def lower(self, graph: GraphModule, example_inputs: Inputs, options: Options) -> CompiledFn:
        """Call the function."""
        del options
        with aot.donating_nothing():
            compiled: CompiledFn = self.function(graph, list(example_inputs))
        return compiled


class TorchBackend(CallableBackend):
    """A name in torch's registry, looked up when it is first used."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.summary = torch_registered.summary(name)

    def probe(self) -> Availability:
        """What is known of torch's backend of this name."""
        return torch_registered.availability(self.name)

    def lower(self, graph: GraphModule, example_inputs: Inputs, options: Options) -> CompiledFn:
        """Look the function up and call it."""
        self.function = backend_registry.torch_backend(self.name)
        return super().lower(graph, example_inputs, options)
