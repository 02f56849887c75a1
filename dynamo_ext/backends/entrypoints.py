"""Our backends for a plain ``torch.compile(model, backend="dx_onnxrt", options={…})``.

Targets of the entry-point group ``torch_dynamo_backends``: torch finds them without an import
of ours in the user's code. Fallbacks are warnings there, since no report is kept. A user's backend
becomes one by ``register_backend``.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

from dynamo_ext.backends import registry, user_backends
from dynamo_ext.backends.base import DIVIDE
from dynamo_ext.backends.options import mapping_of
from dynamo_ext.backends.torch_private import backend_registry
from dynamo_ext.errors import InvalidBackendError, OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch.fx import GraphModule

    from dynamo_ext.backends.base import Backend


@functools.cache
def entry(name: str) -> Callable[..., Any]:
    """The function that torch gets for the backend of a name."""
    kept: dict[int, tuple[Any, Any]] = {}

    def backend(
        graph: GraphModule,
        example_inputs: Sequence[Any],
        *,
        mode: str | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> Callable[..., Any]:
        given = dict(mapping_of(name, options))
        known = {spec.name for spec in registry.get(name).options}
        if DIVIDE.name in known:
            given.setdefault(DIVIDE.name, False)
        if mode is not None:
            if "mode" not in known:
                message = f"{name} has no modes."
                raise OptionError(message, "Leave mode out of torch.compile.")
            given["mode"] = mode
        made = registry.compiler(name, given)
        if made.given is not None:
            # Torch hands over the same mapping for all graphs of what it compiles.
            _, made = kept.setdefault(id(options), (options, made.with_own_seconds()))
        return made(graph, example_inputs)

    backend.__name__ = backend.__qualname__ = name
    backend.__doc__ = f"``torch.compile(…, backend={name!r})`` through dynamo_ext."
    return backend


def register_backend(backend: Backend) -> Backend:
    """Make a backend of your own known by its name.

    ``%%dynamo -b NAME``, ``dynamo_ext.optimize(NAME)``, ``%dynamo backends`` and
    ``torch.compile(…, backend="dx_NAME")`` know it from then on. One registered under the same
    name before is replaced, so a cell that defines a backend may be run again.

    Parameters
    ----------
    backend
        An object like ``dynamo_ext.Backend``.

    Returns
    -------
    Backend
        The same object.

    Raises
    ------
    InvalidBackendError
        Where it is not a backend, or has the name of one of ours or of torch's.
    """
    if not user_backends.is_backend(backend):
        kind = type(backend).__name__
        message = f"This {kind} is not a backend: it has no supports and no lower."
        raise InvalidBackendError(message, "Derive its class from dynamo_ext.Backend.")
    user_backends.check(backend, [*registry.OURS, *backend_registry.torch_backends(debugging=True)])
    user_backends.registered[backend.name] = backend
    backend_registry.register_torch_backend(f"dx_{backend.name}", entry(backend.name))
    return backend


def __getattr__(name: str) -> Callable[..., Any]:
    if name not in registry.OURS:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    return entry(name)
