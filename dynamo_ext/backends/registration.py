"""Registering a user's backend with us and with torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamo_ext.backends import entrypoints, registry, user_backends
from dynamo_ext.backends.torch_private import backend_registry
from dynamo_ext.errors import InvalidBackendError

if TYPE_CHECKING:
    from dynamo_ext.backends.base import Backend


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
    backend_registry.register_torch_backend(f"dx_{backend.name}", entrypoints.entry(backend.name))
    return backend
