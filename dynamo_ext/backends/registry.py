"""Names to backends: ours, the user's, torch's, other packages' entry points, and any callable.

Importing this imports neither torch nor any engine.
"""

import copyreg
import difflib
import importlib.util
import pkgutil
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import replace
from typing import Any, cast
from weakref import WeakValueDictionary

from dynamo_ext.backends import precision, torch_registered, user_backends
from dynamo_ext.backends.base import Backend, fact, unavailable
from dynamo_ext.backends.compiler import Compiler
from dynamo_ext.backends.options import mapping_of, resolve
from dynamo_ext.backends.torch_private import backend_registry
from dynamo_ext.errors import BackendUnavailableError, OptionError, UnknownBackendError
from dynamo_ext.interruptions import failures
from dynamo_ext.records.common import FULL, Availability, BackendInfo
from dynamo_ext.torch_private import version

OURS: dict[str, str] = {
    "eager": "dynamo_ext.backends.engines.eager.backend:EAGER",
    "inductor": "dynamo_ext.backends.engines.inductor.backend:BACKEND",
    "onnxrt": "dynamo_ext.backends.engines.onnxrt.backend:BACKEND",
    "openvino": "dynamo_ext.backends.engines.openvino.backend:BACKEND",
    "aot_eager": "dynamo_ext.backends.engines.eager.backend:AOT_EAGER",
    "ts": "dynamo_ext.backends.engines.torchscript.backend:TS",
    "ofi": "dynamo_ext.backends.engines.torchscript.backend:OFI",
    "tvm": "dynamo_ext.backends.engines.tvm.backend:TVM",
    "tvm_meta_schedule": "dynamo_ext.backends.engines.tvm.backend:TVM_META_SCHEDULE",
    "xla": "dynamo_ext.backends.engines.xla.backend:XLA",
    "xla_trivial": "dynamo_ext.backends.engines.xla.backend:XLA_TRIVIAL",
    "onnx2tf": "dynamo_ext.backends.engines.onnx2tf.backend:BACKEND",
    "cudagraphs": "dynamo_ext.backends.engines.cudagraphs.backend:BACKEND",
    "tensorrt": "dynamo_ext.backends.engines.tensorrt.backend:BACKEND",
    "nvfuser": "dynamo_ext.backends.engines.nvfuser.backend:BACKEND",
    "auto": "dynamo_ext.auto.backend:BACKEND",
}


def _request(made: Compiler) -> tuple[Any, ...]:
    """How a compiler is pickled: the process that reads it asks its own registry."""
    return compiler, (made.backend.name, dict(made.options))


copyreg.pickle(Compiler, _request)

_compilers: dict[tuple[Any, ...], Compiler] = {}
# Keyed by the identity of a user's callable or backend, which its compiler keeps alive: an
# identity is not reused while Dynamo holds the compiler, and an edited cell's old function goes
# with its code.
_wrapped: WeakValueDictionary[tuple[Any, ...], Compiler] = WeakValueDictionary()


def racing() -> tuple[str, ...]:
    """Those of ours that ``auto`` tries by default."""
    return tuple(name for name in OURS if _load(name).races)


def racing_here() -> list[str]:
    """Those of them that are available on this machine."""
    return [name for name in racing() if probe(get(name)).available]


def _load(name: str) -> Backend:
    backend: Backend = pkgutil.resolve_name(OURS[name])
    return backend


def _foreign_names() -> list[str]:
    listed = set(backend_registry.torch_backends()) | set(torch_registered.entry_points())
    return sorted(n for n in listed if n not in OURS and not n.startswith("dx_"))


def names() -> list[str]:
    """Every name that ``compiler`` takes: ours in their own order, the user's, then others'."""
    others = [name for name in _foreign_names() if name not in user_backends.registered]
    return [*OURS, *user_backends.registered, *others]


def get(name: str) -> Backend:
    """The backend of a name, ours before the user's before torch's.

    Raises ``UnknownBackendError`` with the nearest names there are.
    """
    if name in OURS:
        return _load(name)
    if name in user_backends.registered:
        return user_backends.registered[name]
    if name.startswith("dx_") and (name[3:] in OURS or name[3:] in user_backends.registered):
        return get(name[3:])
    if name in _foreign_names() or name in backend_registry.torch_backends(debugging=True):
        from dynamo_ext.backends.engines.callable.backend import TorchBackend

        return TorchBackend(name)
    known = names()
    near = difflib.get_close_matches(name.lower(), known, n=3, cutoff=0.5)
    hint = f"Did you mean {' or '.join(near)}?" if near else f"There are: {', '.join(known)}."
    message = f"There is no backend {name!r}."
    raise UnknownBackendError(message, hint)


def request(text: str, options: Mapping[str, Any] | None = None) -> tuple[Backend, dict[str, Any]]:
    """The backend of a name, and its options with what the precision behind the name stands for.

    Raises what ``get`` and ``refuse_what_others_take`` do.
    """
    name, chosen = precision.split(text)
    backend = get(name)
    asked = {**mapping_of(backend.name, options), **chosen}
    refuse_what_others_take(backend, asked)
    return backend, asked


def refuse_what_others_take(backend: Backend, options: Mapping[str, Any]) -> None:
    """Raise ``OptionError`` where others alone have a precision, or keep to a bound of accuracy."""
    for key in ("precision", "accuracy"):
        if key in options and not _takes(backend, key, options[key]):
            able = [each for each in OURS if _takes(_load(each), key, options[key], by_name=True)]
            if able:
                message = f"{backend.name} cannot be given {key} {options[key]}."
                raise OptionError(message, f"It can be given to {', '.join(able)}.")


def _takes(backend: Backend, key: str, chosen: object, *, by_name: bool = False) -> bool:
    """Whether a backend has an option of that name, or takes any, and the choice of it."""
    specs = {spec.name: spec for spec in backend.options}
    spec = specs.get(key) or (None if by_name else specs.get("*"))
    return spec is not None and (not spec.choices or chosen in spec.choices)


def has_precision(name: str, chosen: str) -> bool:
    """Whether the backend of a name can compute in a precision, here."""
    backend = get(name)
    return chosen in precisions(backend) and probe(backend, chosen).available


def precisions(backend: Backend) -> list[str]:
    """Those below the code's own that a backend can compute in, on a machine that has them."""
    return [c for spec in backend.options if spec.name == "precision" for c in spec.choices[1:]]


def probe(backend: Backend, chosen: str = FULL) -> Availability:
    """Its packages, then its own answers; an exception while it looks is an answer too.

    ``chosen`` is the precision that it is to compute in.
    """
    try:
        packages = fact(backend, "packages")
        if missing := [name for name in packages if importlib.util.find_spec(name) is None]:
            reason = f"{' and '.join(missing)} cannot be imported."
            extra = backend.extra and f'pip install "dynamo-ext[{backend.extra}]"'
            remedy = extra or f"Install what has {' and '.join(missing)}."
            return unavailable(reason, remedy)
        found = backend.probe()
        reason = version.reason_without_backend(type(backend).__module__) if found.available else ""
        if found.available and chosen != FULL and (no := fact(backend, "lacks_precision")(chosen)):
            return unavailable(no, f"Use {backend.name} without it.", found.version)
    except failures() as error:  # a broken engine must not break the list
        reason = f"Looking for it failed: {type(error).__name__}: {error}"
        return unavailable(reason, "Reinstall its package.")
    return unavailable(reason, version.REMEDY) if reason else found


def _with_another(answer: Availability, name: str, chosen: str) -> Availability:
    """``answer`` with the first other backend that ``auto`` tries and that works here, if any."""
    for each in (other for other in racing() if other != name):
        if chosen in {FULL, *precisions(_load(each))} and probe(_load(each), chosen).available:
            other = precision.label(each, {"precision": chosen})
            rest = f" Else: {answer.remedy}" if answer.remedy else ""
            return replace(answer, remedy=f"Use {other}, which works here.{rest}")
    return answer


def describe(name: str | None = None) -> list[BackendInfo]:
    """Rows for ``%dynamo backends``: every backend, or the one of a name.

    Ours come first, then torch's and other packages'. Raises ``UnknownBackendError`` where no
    backend has the name.
    """
    rows = []
    outside = torch_registered.entry_points()
    for each in names() if name is None else [name]:
        backend = get(each)
        origin = "dynamo_ext"
        if backend.name in user_backends.registered:
            origin = "yours"
        elif backend.name not in OURS:
            origin = "entry point" if each in outside else "torch"
        found = probe(backend)
        asked = precisions(backend) if found.available and name is not None else ()
        answers = ((each, fact(backend, "lacks_precision")(each)) for each in asked)
        lacking = tuple((each, no) for each, no in answers if no)
        rows.append(
            BackendInfo(
                backend.name, origin, backend.summary, found, tuple(backend.options), lacking
            )
        )
    return rows


def compiler(
    backend: str | Backend | Callable[..., Any],
    options: Mapping[str, Any] | None = None,
    *,
    strict: bool = False,
) -> Compiler:
    """The object that Dynamo takes as its backend: the identical one for the same request.

    ``backend`` is a name from ``names()``, with a precision behind it (``openvino:bf16``) where the
    backend has one, a backend object, or a callable ``(graph,
    example_inputs) -> callable``; ``options`` are its own, whose text is converted to their types.
    A backend that cannot run here leaves everything to eager, and the journal says why; with
    ``strict`` it raises ``BackendUnavailableError``. Raises ``UnknownBackendError``,
    ``InvalidBackendError`` where a backend object lacks something, and ``OptionError``.
    """
    if isinstance(backend, Compiler):
        return backend
    named, identity = isinstance(backend, str), id(backend)
    if isinstance(backend, str):
        found, options = request(backend, options)
        identity = id(found)
    elif user_backends.is_backend(backend):
        found = backend
    else:
        from dynamo_ext.backends.engines.callable.backend import CallableBackend

        found = CallableBackend(cast("Callable[..., Any]", backend))
    ours = getattr(found, "name", None) in OURS and _load(found.name) is found
    if found is backend and not ours:
        user_backends.check(found, OURS)
    settled = resolve(found.name, found.options, options)
    availability = probe(found, precision.of(settled))
    if not availability.available:
        availability = _with_another(availability, found.name, precision.of(settled))
    if strict and not availability.available:
        name = precision.label(found.name, settled)
        message = f"{name} is not available: {availability.reason}"
        raise BackendUnavailableError(message, availability.remedy)
    of_users = not ours and (not named or user_backends.registered.get(found.name) is found)
    key = (identity if of_users else found.name, tuple(sorted(settled.items())), availability)
    kept: MutableMapping[tuple[Any, ...], Compiler] = _wrapped if of_users else _compilers
    known = kept.get(key)
    if known is None:
        known = kept[key] = Compiler(found, settled, availability)
    return known


def program_line(made: Any, dynamic: bool | None = None) -> str:  # noqa: FBT001 - as torch has it
    """The line by which a program compiles a model as a cell, or a comparison, compiled its code.

    As ``torch.compile(model, backend="dx_onnxrt", dynamic=True, options={"threads": 1})``; empty
    for eager, and for what ``torch.compile`` knows by no name of ours.
    """
    if not isinstance(made, Compiler):
        return ""
    name = made.backend.name
    if name == "eager" or not (name in OURS or name in user_backends.registered):
        return ""
    usual = {spec.name: spec.default for spec in made.backend.options}
    options = {key: value for key, value in made.options.items() if value != usual.get(key)}
    words = ["model", f'backend="dx_{name}"']
    words += [] if dynamic is None else [f"dynamic={dynamic}"]
    words += [f"options={options}"] if options else []
    return f"torch.compile({', '.join(words)})"
