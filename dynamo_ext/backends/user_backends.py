"""Backend objects of the user's own: what one must have, and those registered by name."""

from collections.abc import Collection
from typing import Any, TypeGuard

from dynamo_ext.backends.base import Backend
from dynamo_ext.errors import InvalidBackendError

_ANSWERS = ("supports", "lower")
_FACTS = ("name", "summary", "extra", "whole_graph", "options", "probe", *_ANSWERS)
_REMEDY = "Derive its class from dynamo_ext.Backend, and define name, supports and lower."

registered: dict[str, Backend] = {}
"""The user's backends by name, in the order in which they were registered."""


def is_backend(value: object) -> TypeGuard[Backend]:
    """Whether a value is meant as a backend object: it answers ``supports`` and ``lower``."""
    return all(callable(getattr(value, answer, None)) for answer in _ANSWERS)


def check(backend: Any, names: Collection[str]) -> None:
    """Raise ``InvalidBackendError`` where a backend object lacks something or has a taken name."""
    if isinstance(backend, type):
        message = f"{backend.__name__} is a class, not a backend."
        raise InvalidBackendError(message, f"Pass an instance: {backend.__name__}().")
    kind = type(backend).__name__
    missing = [fact for fact in _FACTS if not hasattr(backend, fact)]
    # Of the protocol's own, each calls the other.
    of_protocol = getattr(type(backend), "lower", None) is Backend.lower
    missing += ["lower"] * (of_protocol and type(backend).lower_for is Backend.lower_for)
    if missing:
        message = f"This {kind} is not a backend: it has no {' and no '.join(missing)}."
        raise InvalidBackendError(message, _REMEDY)
    name: object = backend.name
    if not isinstance(name, str) or not name or any(map(str.isspace, name)):
        message = f"{name!r} cannot be a backend's name."
        raise InvalidBackendError(message, "Give it a name without spaces.")
    if name in names or name.startswith("dx_"):
        message = f"A backend cannot be called {name}: the name is taken."
        raise InvalidBackendError(message, "Give it another name.")
