"""From what a user lists (``inductor,onnxrt,tvm``) to compilers, each with a name of its own."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dynamo_ext.backends import registry
from dynamo_ext.backends.compiler import Compiler
from dynamo_ext.backends.options import resolve
from dynamo_ext.backends.precision import of
from dynamo_ext.errors import OptionError
from dynamo_ext.measure.settings import Settings
from dynamo_ext.numerics.accuracy_bound import AccuracyBound
from dynamo_ext.records.common import FULL, Availability

Backends = str | Sequence[str | Callable[..., Any]] | Mapping[str, str | Callable[..., Any]]


HERE = Availability(available=True)
_USUAL = Settings()


@dataclass(frozen=True)
class Candidate:
    """A backend with its options, under the name of its row.

    ``compiler`` is made for one comparison, so that nothing compiled before is found again;
    ``None`` where the backend is not available. A ``call`` is one call of a function
    of the user's, which is measured as it is, without a backend. ``bound`` is what the results must
    meet where the precision may be a lower one.
    """

    name: str
    backend: str
    compiler: Any
    availability: Availability = HERE
    options: tuple[tuple[str, str], ...] = ()
    precision: str = FULL
    bound: AccuracyBound | None = None
    call: Callable[[], object] | None = None


def candidates_of(
    backends: Backends, options: Mapping[str, Any] | None = None, settings: Settings = _USUAL
) -> list[Candidate]:
    """Settle names, options and availability, before anything runs.

    ``backends`` are names (in a list, or in one string with commas), with a precision behind them
    (``openvino:bf16``) or options (``inductor[mode=max-autotune]``), functions ``(GraphModule,
    example_inputs) -> callable``, or a mapping from row names to either. An option ``threads`` is
    for every backend that has it, ``tvm.trials`` for one row. The baseline ``eager`` is the code as
    it is, without Dynamo. A bound is for lower precisions, and for ``auto``; other inputs are for
    that, and for int8. Raises ``UnknownBackendError`` or ``OptionError`` where a name or an
    option is unknown, a name is listed twice, nothing is listed, the baseline is not, or other
    inputs are for nothing.
    """
    if not (rows := _rows(backends)):
        message = "There is no backend to compare."
        raise OptionError(message, "Give one or more names, as in inductor,onnxrt.")
    given = dict(options or {})
    taken: set[str] = set()
    found = [
        _candidate(name, backend, given, taken, settings.bound) for name, backend in rows.items()
    ]
    if unknown := ", ".join(sorted(given.keys() - taken)):
        message = f"No backend of this comparison has an option {unknown}."
        raise OptionError(message, "%dynamo backends NAME lists a backend's options.")
    baseline = settings.baseline
    if baseline not in {"eager", *rows}:
        message = f"The baseline {baseline} is not one of the backends."
        raise OptionError(message, f"Use eager or one of {', '.join(rows)}.")
    if settings.check_on and all(each.bound is None and each.precision != "int8" for each in found):
        message = "Other inputs calibrate int8, or have a bound of accuracy checked on them."
        remedy = "Add --accuracy (in Python accuracy=), or a backend with :int8."
        raise OptionError(message, remedy)
    # Captured and run as it is: not the same thing as the plain code.
    return [
        replace(each, name="eager under Dynamo") if each.name == baseline == "eager" else each
        for each in found
    ]


def names_in(text: str) -> list[str]:
    """Names with commas between; those of options in brackets divide nothing."""
    return [name.strip() for name in re.split(r",(?![^\[]*\])", text) if name.strip()]


def _rows(backends: Backends) -> dict[str, str | Callable[..., Any]]:
    if isinstance(backends, Mapping):
        return dict(backends)
    if isinstance(backends, str):
        backends = names_in(backends)
    elif callable(backends) or not isinstance(backends, Iterable):
        backends = [backends]
    rows: dict[str, str | Callable[..., Any]] = {}
    for each in backends:
        name = each if isinstance(each, str) else getattr(each, "__name__", type(each).__name__)
        if name in rows:
            message = f"{name} is listed twice."
            raise OptionError(message, "List each backend once, or give a mapping of row names.")
        rows[name] = each
    return rows


def _candidate(
    name: str,
    backend: str | Callable[..., Any],
    options: dict[str, Any],
    names: set[str],
    bound: AccuracyBound | None,
) -> Candidate:
    mine: dict[str, Any] = {}
    if isinstance(backend, str):
        found, mine = registry.request(backend)
    else:
        found = registry.compiler(backend).backend
    mine = _options_of(name, found, options) | mine
    names.update(mine, (f"{name}.{key}" for key in mine))
    races = found.name == "auto"
    if races and bound is not None and bound.function is None:
        mine.setdefault("accuracy", str(bound))
    registry.refuse_what_others_take(found, mine)
    settled = resolve(found.name, found.options, mine)
    precision = of(settled)
    availability = registry.probe(found, precision) if isinstance(backend, str) else HERE
    given = tuple((key, str(settled[key])) for key in mine if key != "precision")
    if precision == FULL:
        own = settled["accuracy"] if races else ""
        bound = AccuracyBound.parse(own) if own else None
    compiler = Compiler(found, settled).within(bound) if availability.available else None
    return Candidate(name, found.name, compiler, availability, given, precision, bound)


def _options_of(name: str, backend: Any, options: dict[str, Any]) -> dict[str, Any]:
    """What is meant for this row, and what is meant for every row that knows it."""
    known = {spec.name for spec in backend.options}
    shared = {key: value for key, value in options.items() if key in known}
    prefix = f"{name}."
    own = {key: value for key, value in options.items() if key.startswith(prefix)}
    return shared | {key.removeprefix(prefix): value for key, value in own.items()}
