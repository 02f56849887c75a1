"""Options of a backend: from the text of ``--opt KEY=VALUE`` to values of the right type."""

import difflib
import math
import reprlib
from collections.abc import Mapping, Sequence
from typing import Any

from dynamo_ext.errors import OptionError
from dynamo_ext.records.common import OptionSpec

_TRUE = frozenset({"true", "1", "yes", "on"})
_FALSE = frozenset({"false", "0", "no", "off"})


def mapping_of(owner: str, options: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """What was given as ``options``; ``OptionError`` where it is not a mapping from names."""
    if not isinstance(options or {}, Mapping):
        message = f"{owner}'s options cannot be {reprlib.repr(options)}."
        raise OptionError(message, "Give a mapping from names to values.")
    odd = [name for name in options or {} if not isinstance(name, str)]
    if odd:
        message = f"{owner} has no option {reprlib.repr(odd[0])}."
        raise OptionError(message, "Give its name as text.")
    return options or {}


def resolve(
    backend: str, specs: Sequence[OptionSpec], options: Mapping[str, Any] | None
) -> dict[str, Any]:
    """All options of a backend: defaults, with what was given converted to their types.

    A spec named ``*`` stands for all other names, whose values are passed on unread.

    Raises ``OptionError`` for a name that is not an option, or a value that does not fit; it names
    those that do.
    """
    known = {spec.name: spec for spec in specs}
    values: dict[str, Any] = {spec.name: spec.default for spec in specs if spec.name != "*"}
    for name, value in mapping_of(backend, options).items():
        if name in known:
            values[name] = _convert(backend, known[name], value)
        elif "*" not in known:
            message = f"{backend} has no option {name!r}."
            near = difflib.get_close_matches(name, known, n=1)
            hint = f"Did you mean {near[0]!r}? " if near else ""
            listed = f"{hint}It has: {', '.join(known)}."
            raise OptionError(message, listed if known else "It takes no options at all.")
        else:
            # Compilers are distinguished by this, so it is hashable.
            values[name] = tuple(value) if isinstance(value, set | list) else value
    return values


def _convert(backend: str, spec: OptionSpec, value: Any) -> Any:
    kind = spec.kind
    if spec.optional and str(value).strip().lower() == "none":
        return None
    try:
        converted = _parse(kind, value)
    except (OverflowError, TypeError, ValueError) as error:
        message = f"{backend}'s option {spec.name!r} cannot be {value!r}."
        wanted = "true or false" if kind is bool else f"a value of type {kind.__name__}"
        example = ", or none" if spec.optional else f", such as {spec.default!r}"
        raise OptionError(message, f"Give it {wanted}{example}.") from error
    if spec.choices and str(converted) not in {*spec.choices, spec.default}:
        message = f"{backend}'s option {spec.name!r} cannot be {value!r}."
        raise OptionError(message, f"Choose from: {', '.join(spec.choices)}.")
    least = -math.inf if spec.least is None else spec.least
    most = math.inf if spec.most is None else spec.most
    endless = kind is float and math.isinf(converted)
    # nan is between no bounds.
    if kind in {int, float} and (endless or not least <= converted <= most):
        message = f"{backend}'s option {spec.name!r} cannot be {reprlib.repr(value)}."
        finite = ", and finite" if endless else ""
        raise OptionError(message, f"Give it {_range(least, most)}{finite}.")
    return converted


def _range(least: float, most: float) -> str:
    if math.isinf(most):
        return "a number" if math.isinf(least) else f"{least} or more"
    return f"{most} or less" if math.isinf(least) else f"a number from {least} to {most}"


def _parse(kind: type, value: Any) -> Any:
    if kind is bool:
        text = str(value).strip().lower()
        if text not in _TRUE | _FALSE:
            raise ValueError(text)
        return text in _TRUE
    if isinstance(value, bool) or (kind is int and isinstance(value, float)):
        raise TypeError(value)
    if kind is str and not isinstance(value, str):
        raise TypeError(value)
    return kind(value.strip() if isinstance(value, str) else value)
