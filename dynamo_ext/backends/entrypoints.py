"""Our backends for a plain ``torch.compile(model, backend="dx_onnxrt", options={…})``.

Targets of the entry-point group ``torch_dynamo_backends``: torch finds them without an import
of ours in the user's code. Fallbacks are warnings there, since no report is kept.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from dynamo_ext.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch.fx import GraphModule


@functools.cache
def entry(name: str) -> Callable[..., Any]:
    """The function that torch gets for the backend of a name."""

    def backend(
        graph: GraphModule,
        example_inputs: Sequence[Any],
        *,
        mode: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Callable[..., Any]:
        from dynamo_ext.backends import registry
        from dynamo_ext.backends.options import mapping_of

        given = dict(mapping_of(name, options))
        if mode is not None:
            specs = registry.get(name).options
            if not any(spec.name == "mode" for spec in specs):
                message = f"{name} has no modes."
                raise OptionError(message, "Leave mode out of torch.compile.")
            given["mode"] = mode
        return registry.compiler(name, given)(graph, example_inputs)

    backend.__name__ = backend.__qualname__ = name
    backend.__doc__ = f"``torch.compile(…, backend={name!r})`` through dynamo_ext."
    return backend


def __getattr__(name: str) -> Callable[..., Any]:
    from dynamo_ext.backends.registry import OURS

    if name not in OURS:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    return entry(name)
