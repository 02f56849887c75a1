"""``dynamo_ext.explain``: what capture makes of a call, and which operations have the time."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dynamo_ext.backends.base import Backend
from dynamo_ext.records.report import Report


def explain(
    target: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    backend: str | Backend | Callable[..., Any] = "eager",
    options: Mapping[str, Any] | None = None,
) -> Report:
    """Capture one call, run it, time its operations in eager, and report.

    What ``%dynamo explain`` does with an expression; another ``backend`` also tells which
    operations it takes, and what share of the time those have that it does not.

    Parameters
    ----------
    target
        A function or module. It is called once; its result is dropped.
    args, kwargs
        Its arguments: tensors of any shape and dtype, or anything else.
    backend, options
        As in ``dynamo_ext.optimize``.

    Returns
    -------
    Report
        ``report.graphs[i].operations[j].seconds`` is what an operation takes in eager by itself,
        the median of up to six runs on copies of the inputs (``measure.operation_profiler``);
        ``dynamo_ext.widgets.display_report`` shows all of it.

    Raises
    ------
    OptionError
        Where ``target`` cannot be called, or ``args`` is not a sequence.
    Exception
        What the call itself raises.
    """
    from dynamo_ext.api.optimize import optimize
    from dynamo_ext.capture import targets
    from dynamo_ext.measure.operation_profiler import OperationTimes

    targets.check(target, "explained", args)
    called = optimize(backend, options=options).explaining(OperationTimes())(target)
    called(*args, **(kwargs or {}))
    report: Report = called.report()
    return report
