"""From what a user wrote after ``-b`` to a compiler: a name, or an expression of theirs."""

import types
import weakref
from collections.abc import Mapping
from typing import Any

from dynamo_ext.backends.base import CompilerFn
from dynamo_ext.errors import UnknownBackendError
from dynamo_ext.magics.argument_errors import explain_several


def torchs_default() -> Any:
    """The backend of ``torch.compile`` where none is named: a name or a function."""
    import torch

    # Torch 2.11 and 2.12 have Inductor and no choice.
    return getattr(torch.compiler, "get_default_backend", lambda: "inductor")()


def choose(
    text: str, namespace: dict[str, Any], options: Mapping[str, str], *, strict: bool
) -> CompilerFn:
    """The compiler for ``-b text``: our names, then the user's, torch's, then an expression.

    Raises ``UnknownBackendError`` where it is neither a name nor an expression,
    ``InvalidBackendError`` for a backend object that lacks something, ``OptionError`` for several
    names, a value that cannot be called or an option that does not fit, and, if ``strict``,
    ``BackendUnavailableError``.
    """
    from dynamo_ext.backends import registry

    try:
        return registry.compiler(text, options, strict=strict)
    except UnknownBackendError as error:
        explain_several(text)
        try:
            compile(text, "<backend>", "eval")
        except SyntaxError:
            raise error from None
        if text.isidentifier() and text not in namespace:
            raise
    value = _same_function(text, evaluate(text, namespace))
    return registry.compiler(value, options, strict=strict)


def _same_function(text: str, value: Any) -> Any:
    """The function that this text gave before, where it is the same one made again.

    Dynamo knows backends by identity: a new lambda at each run would compile all again.
    """
    known = _made_before.get(text)
    facts = ("__code__", "__defaults__", "__kwdefaults__", "__globals__", "__closure__")
    same = known is not None and all(
        getattr(known, fact, None) == getattr(value, fact, value) for fact in facts
    )
    if not same and isinstance(value, types.FunctionType):
        _made_before[text] = value
    return known if same else value


_made_before: weakref.WeakValueDictionary[str, types.FunctionType] = weakref.WeakValueDictionary()


def evaluate(text: str, namespace: dict[str, Any]) -> Any:
    """The user's own expression in the user's own namespace.

    Raises ``UnknownBackendError`` where it raises.
    """
    try:
        return eval(text, namespace)  # noqa: S307
    except Exception as error:
        said = f"raises {type(error).__name__}: {error}."
        msg = f"-b {text} is not the name of a backend and {said}"
        remedy = "%dynamo backends lists the names."
        raise UnknownBackendError(msg, remedy) from error
