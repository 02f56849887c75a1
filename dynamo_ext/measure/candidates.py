"""From what a user lists (``inductor,onnxrt,tvm``) to compilers, each with a name of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dynamo_ext.backends import registry
from dynamo_ext.backends.compilers import Compiler
from dynamo_ext.backends.options import resolve
from dynamo_ext.errors import OptionError
from dynamo_ext.records import Availability

Backends = str | Sequence[str | Callable[..., Any]] | Mapping[str, str | Callable[..., Any]]


@dataclass(frozen=True)
class Candidate:
    """A backend with its options, under the name of its row.

    ``compiler`` is made for one comparison, so that nothing compiled before is found again;
    ``None`` where the backend is not available. With a ``call``, one call of a function of the
    user's own that stands in for the code, there is no backend.
    """

    name: str
    backend: str
    compiler: Any
    availability: Availability
    options: tuple[tuple[str, str], ...] = ()
    call: Callable[[], object] | None = None


def candidates_of(
    backends: Backends, options: Mapping[str, Any] | None = None, *, baseline: str = "eager"
) -> list[Candidate]:
    """Settle names, options and availability, before anything runs.

    Parameters
    ----------
    backends
        Names (in a list, or in one string with commas), functions
        ``(GraphModule, example_inputs) -> callable``, or a mapping from row names to either.
    options
        ``{"threads": 2}`` for every backend that has such an option, ``{"tvm.trials": 64}`` for
        one row.
    baseline
        The baseline's name. ``eager`` is the code as it is, without Dynamo.

    Raises
    ------
    UnknownBackendError, OptionError
        Where a name or an option is unknown, a name stands twice, or nothing is listed.
    """
    rows = _rows(backends)
    if not rows:
        message = "There is no backend to compare."
        raise OptionError(message, "Give one or more names, as in inductor,onnxrt.")
    given = dict(options or {})
    taken: set[str] = set()
    found = [_candidate(name, backend, given, taken) for name, backend in rows.items()]
    unknown = ", ".join(sorted(given.keys() - taken))
    if unknown:
        message = f"No backend of this comparison has an option {unknown}."
        raise OptionError(message, "%dynamo backends NAME lists a backend's options.")
    clash = [c for c in found if c.name == baseline == "eager"]
    if clash:
        # Captured and run as it is: not the same thing as the plain code.
        index = found.index(clash[0])
        was = found[index]
        found[index] = Candidate(
            "eager under Dynamo", was.backend, was.compiler, was.availability, was.options
        )
    return found


def beside(calls: Mapping[str, Callable[[], object]], taken: Sequence[str]) -> list[Candidate]:
    """Functions of the user's own as candidates.

    Parameters
    ----------
    calls
        One call of each, by the name of its row.
    taken
        Names that other rows have.

    Raises
    ------
    OptionError
        Where a name stands twice.
    """
    for name in calls:
        if name in taken:
            message = f"{name} is listed twice."
            raise OptionError(message, "Give the function beside the backends another name.")
    here = Availability(available=True)
    return [Candidate(name, "", None, here, call=call) for name, call in calls.items()]


def _rows(backends: Backends) -> dict[str, str | Callable[..., Any]]:
    if isinstance(backends, Mapping):
        return dict(backends)
    listed: Sequence[str | Callable[..., Any]] = (
        [name.strip() for name in backends.split(",") if name.strip()]
        if isinstance(backends, str)
        else backends
    )
    rows: dict[str, str | Callable[..., Any]] = {}
    for each in listed:
        name = each if isinstance(each, str) else getattr(each, "__name__", type(each).__name__)
        if name in rows:
            message = f"{name} is listed twice."
            raise OptionError(message, "List each backend once, or give a mapping of row names.")
        rows[name] = each
    return rows


def _candidate(
    name: str, backend: str | Callable[..., Any], options: dict[str, Any], taken: set[str]
) -> Candidate:
    if not isinstance(backend, str):
        made = registry.compiler(backend)
        mine = _options_of(name, made.backend, options)
        taken.update(mine, (f"{name}.{key}" for key in mine))
        settled = resolve(made.name, made.backend.options, mine)
        fresh = Compiler(made.backend, settled)
        chosen = tuple((key, str(settled[key])) for key in mine)
        return Candidate(name, made.name, fresh, Availability(available=True), chosen)
    found = registry.get(backend)
    mine = _options_of(name, found, options)
    taken.update(mine, (f"{name}.{key}" for key in mine))
    settled = resolve(found.name, found.options, mine)
    availability = registry.probe(found)
    return Candidate(
        name,
        found.name,
        Compiler(found, settled) if availability.available else None,
        availability,
        tuple((key, str(settled[key])) for key in mine),
    )


def _options_of(name: str, backend: Any, options: dict[str, Any]) -> dict[str, Any]:
    """What is meant for this row, and what is meant for every row that knows it."""
    known = {spec.name for spec in backend.options}
    shared = {key: value for key, value in options.items() if key in known}
    prefix = f"{name}."
    own = {
        key.removeprefix(prefix): value for key, value in options.items() if key.startswith(prefix)
    }
    return {**shared, **own}
