"""Names to backends: ours, the user's, torch's, other packages' entry points, and any callable.

Importing this imports neither torch nor any engine.
"""

from __future__ import annotations

import difflib
import importlib
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakValueDictionary

from dynamo_ext.backends import users
from dynamo_ext.backends.compilers import Compiler, UnavailableCompiler
from dynamo_ext.backends.options import resolve
from dynamo_ext.errors import BackendUnavailableError, InvalidBackendError, UnknownBackendError
from dynamo_ext.records import Availability, BackendInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, MutableMapping

    from dynamo_ext.backends.base import Backend

_OURS: dict[str, str] = {
    "eager": "dynamo_ext.backends.eager:BACKEND",
    "inductor": "dynamo_ext.backends.inductor:BACKEND",
    "onnxrt": "dynamo_ext.backends.onnxrt:BACKEND",
    "openvino": "dynamo_ext.backends.openvino:BACKEND",
    "aot_eager": "dynamo_ext.backends.aot_eager:BACKEND",
    "ts": "dynamo_ext.backends.torchscript:BACKEND",
    "ofi": "dynamo_ext.backends.ofi:BACKEND",
    "nnc": "dynamo_ext.backends.nnc:BACKEND",
    "tvm": "dynamo_ext.backends.tvm:TVM",
    "tvm_meta_schedule": "dynamo_ext.backends.tvm:TVM_META_SCHEDULE",
    "xla": "dynamo_ext.backends.xla:XLA",
    "xla_trivial": "dynamo_ext.backends.xla:XLA_TRIVIAL",
    "lazy": "dynamo_ext.backends.lazy:BACKEND",
    "onnx2tf": "dynamo_ext.backends.onnx2tf:BACKEND",
    "cudagraphs": "dynamo_ext.backends.cudagraphs:BACKEND",
    "tensorrt": "dynamo_ext.backends.tensorrt:BACKEND",
    "nvfuser": "dynamo_ext.backends.nvfuser:BACKEND",
    "auto": "dynamo_ext.auto.backend:BACKEND",
}

_compilers: dict[tuple[Any, ...], Compiler] = {}
# Keyed by the identity of a user's callable or backend, which its compiler keeps alive: an
# identity is not reused while Dynamo holds the compiler, and an edited cell's old function goes
# with its code.
_wrapped: WeakValueDictionary[tuple[Any, ...], Compiler] = WeakValueDictionary()


def _load(name: str) -> Backend:
    module, _, attribute = _OURS[name].partition(":")
    backend: Backend = getattr(importlib.import_module(module), attribute)
    return backend


def _foreign_names() -> list[str]:
    from dynamo_ext.backends import foreign, torch_private

    listed = set(torch_private.torch_backends()) | set(foreign.entry_points())
    return sorted(n for n in listed if n not in _OURS and not n.startswith("dx_"))


def _is_debugging(name: str) -> bool:
    from dynamo_ext.backends import torch_private

    return name in torch_private.torch_backends(debugging=True)


def names() -> list[str]:
    """Every name that ``compiler`` takes: ours in their own order, the user's, then others'."""
    foreign = [name for name in _foreign_names() if name not in users.registered]
    return [*_OURS, *users.registered, *foreign]


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
        Where it is no backend, or has the name of one of ours or of torch's.
    """
    from dynamo_ext.backends import entrypoints, torch_private

    if not users.is_backend(backend):
        message = f"This {type(backend).__name__} is no backend: it has no supports and no lower."
        raise InvalidBackendError(message, "Derive its class from dynamo_ext.Backend.")
    users.check(backend, [*_OURS, *torch_private.torch_backends(debugging=True)])
    users.registered[backend.name] = backend
    torch_private.register_torch_backend(f"dx_{backend.name}", entrypoints.entry(backend.name))
    return backend


def get(name: str) -> Backend:
    """The backend of a name, ours before the user's before torch's.

    Raises
    ------
    UnknownBackendError
        With the nearest names there are.
    """
    if name in _OURS:
        return _load(name)
    if name in users.registered:
        return users.registered[name]
    if name.startswith("dx_") and (name[3:] in _OURS or name[3:] in users.registered):
        return get(name[3:])
    if name in _foreign_names() or _is_debugging(name):
        from dynamo_ext.backends import foreign
        from dynamo_ext.backends.callables import TorchBackend

        return TorchBackend(name, lambda: foreign.availability(name), foreign.summary(name))
    known = names()
    near = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"There are: {', '.join(known)}."
    message = f"There is no backend {name!r}."
    raise UnknownBackendError(message, hint)


def probe(backend: Backend) -> Availability:
    """A backend's own answer; an exception while it looks is an answer too."""
    try:
        return backend.probe()
    except Exception as error:  # noqa: BLE001 - a broken engine must not break the list
        reason = f"Looking for it failed: {type(error).__name__}: {error}"
        return Availability(available=False, reason=reason, remedy="Reinstall its package.")


def describe(name: str | None = None) -> list[BackendInfo]:
    """Rows for ``%dynamo backends``: every backend, or one.

    Parameters
    ----------
    name
        A backend's name; ``None`` for all: ours first, then torch's and other packages'.

    Raises
    ------
    UnknownBackendError
        When no backend has the name.
    """
    from dynamo_ext.backends import foreign

    rows = []
    outside = foreign.entry_points()
    for each in names() if name is None else [name]:
        backend = get(each)
        origin = "dynamo_ext"
        if backend.name in users.registered:
            origin = "yours"
        elif backend.name not in _OURS:
            origin = "entry point" if each in outside else "torch"
        rows.append(
            BackendInfo(
                backend.name, origin, backend.summary, probe(backend), tuple(backend.options)
            )
        )
    return rows


def compiler(
    backend: str | Backend | Callable[..., Any],
    options: Mapping[str, Any] | None = None,
    *,
    strict: bool = False,
) -> Compiler:
    """The object that Dynamo takes as its backend.

    Parameters
    ----------
    backend
        A name from ``names()``, a backend object, or a callable
        ``(graph, example_inputs) -> callable``.
    options
        The backend's options; text is converted to their types.
    strict
        Raise where the backend cannot run here; otherwise everything runs eagerly and the
        journal says why.

    Returns
    -------
    Compiler
        The identical object for the same request: Dynamo goes by identity.

    Raises
    ------
    UnknownBackendError
        When no backend has the name.
    InvalidBackendError
        Where a backend object lacks something.
    OptionError
        For a name or value that is no option of it.
    BackendUnavailableError
        Under ``strict``.
    """
    if isinstance(backend, Compiler):
        return backend
    if isinstance(backend, str):
        found = get(backend)
    elif users.is_backend(backend):
        found = backend
    else:
        return _wrap(cast("Callable[..., Any]", backend), options)
    ours = getattr(found, "name", None) in _OURS and _load(found.name) is found
    if not ours and not isinstance(backend, str):
        users.check(found, _OURS)
    settled = resolve(found.name, found.options, options)
    availability = probe(found)
    if strict and not availability.available:
        message = f"{found.name} is not available: {availability.reason}"
        raise BackendUnavailableError(message, availability.remedy)
    of_users = not ours and (
        not isinstance(backend, str) or users.registered.get(found.name) is found
    )
    key = (id(found) if of_users else found.name, tuple(sorted(settled.items())), availability)
    kept: MutableMapping[tuple[Any, ...], Compiler] = _wrapped if of_users else _compilers
    known = kept.get(key)
    if known is None:
        known = kept[key] = (
            Compiler(found, settled)
            if availability.available
            else UnavailableCompiler(found, settled, availability)
        )
    return known


def _wrap(function: Callable[..., Any], options: Mapping[str, Any] | None) -> Compiler:
    from dynamo_ext.backends.callables import CallableBackend

    made = CallableBackend(function)
    settled = resolve(made.name, made.options, options)
    key = (id(function), tuple(sorted(settled.items())))
    known = _wrapped.get(key)
    if known is None:
        known = _wrapped[key] = Compiler(made, settled)
    return known
