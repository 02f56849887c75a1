"""``optimize`` and ``run`` without a notebook: context managers, decorators, wrapped modules."""

import functools
from collections.abc import Callable, Mapping
from typing import Any

from dynamo_ext.backends import registry
from dynamo_ext.backends.base import Backend
from dynamo_ext.capture.listen.tracer import optimizing
from dynamo_ext.capture.session import Session, reuse_last


def optimize(  # noqa: PLR0913 - torch.compile's flags, and seconds
    backend: str | Backend | Callable[..., Any] = "inductor",
    *,
    dynamic: bool | None = None,
    fullgraph: bool = False,
    options: Mapping[str, Any] | None = None,
    strict: bool = False,
    first_run: float | None = None,
) -> Session:
    """Capture and compile what has not been seen, reuse what has.

    Parameters
    ----------
    backend
        A name of ours, of your own (``register_backend``) or of torch's; a backend object (see
        ``dynamo_ext.Backend``); or a compiler function
        ``(torch.fx.GraphModule, example_inputs) -> callable``.
    dynamic
        ``True`` for symbolic sizes from the start, ``False`` for none, ``None`` for torch's way:
        a size that changes becomes symbolic.
    fullgraph
        Raise on a graph break instead of splitting.
    options
        The backend's own options (``%dynamo backends NAME`` lists them).
    strict
        Raise where the backend is not available, instead of running eagerly.
    first_run
        Seconds of lowering, compiling and checking in all, after which eager runs what was not
        begun; the option of the same name.

    Raises
    ------
    UnknownBackendError, InvalidBackendError, OptionError
        At once, before anything runs.
    BackendUnavailableError
        With ``strict``.
    """
    if first_run is not None:
        options = {**(options or {}), "first_run": first_run}
    compiler = registry.compiler(backend, options, strict=strict).with_own_seconds()
    made = functools.partial(optimizing, compiler, dynamic=dynamic, fullgraph=fullgraph)
    return Session(made, "optimize")


def run() -> Session:
    """Reuse only: what was compiled before is used, and nothing is compiled, ever.

    A frame with a new shape (or any guard that fails) runs eagerly and is counted in the report.
    """
    return Session(reuse_last, "run")
