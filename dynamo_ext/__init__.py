"""dynamo_ext: the notebook workbench for PyTorch compiler backends.

``%load_ext dynamo_ext`` adds the ``%%dynamo`` and ``%dynamo`` magics; the same contexts work
without a notebook through ``optimize`` and ``run``. Importing this package imports neither torch
nor a backend: each name below loads what it needs when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from dynamo_ext.records import forms

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

    from dynamo_ext.analysis.advice import advise as advise
    from dynamo_ext.api.compare import ComparisonResult as ComparisonResult
    from dynamo_ext.api.compare import compare as compare
    from dynamo_ext.api.explain import explain as explain
    from dynamo_ext.api.optimize import optimize as optimize
    from dynamo_ext.api.optimize import run as run
    from dynamo_ext.backends.base import Backend as Backend
    from dynamo_ext.backends.base import StayEager as StayEager
    from dynamo_ext.backends.base import Support as Support
    from dynamo_ext.backends.calibration import calibrating as calibrating
    from dynamo_ext.backends.entrypoints import register_backend as register_backend
    from dynamo_ext.capture.session import last_report as last_report
    from dynamo_ext.measure.machine_limits import measure_machine as measure_machine
    from dynamo_ext.records.common import Availability as Availability
    from dynamo_ext.records.common import OptionSpec as OptionSpec
    from dynamo_ext.records.report import Report as Report

__version__ = "0.1.0"

_LAZY = {
    "Availability": "dynamo_ext.records.common",
    "Backend": "dynamo_ext.backends.base",
    "ComparisonResult": "dynamo_ext.api.compare",
    "OptionSpec": "dynamo_ext.records.common",
    "Report": "dynamo_ext.records.report",
    "StayEager": "dynamo_ext.backends.base",
    "Support": "dynamo_ext.backends.base",
    "advise": "dynamo_ext.analysis.advice",
    "calibrating": "dynamo_ext.backends.calibration",
    "compare": "dynamo_ext.api.compare",
    "explain": "dynamo_ext.api.explain",
    "last_report": "dynamo_ext.capture.session",
    "measure_machine": "dynamo_ext.measure.machine_limits",
    "optimize": "dynamo_ext.api.optimize",
    "register_backend": "dynamo_ext.backends.entrypoints",
    "run": "dynamo_ext.api.optimize",
}
__all__ = ["load_ipython_extension", *_LAZY]  # noqa: PLE0604 - they are strings


def __getattr__(name: str) -> Any:
    module = _LAZY.get(name)
    if module is None:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(importlib.import_module(module), name)


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def _report(form: str, report: Report, *more: object) -> Any:
    from dynamo_ext.widgets.report import static, timing

    return getattr(timing if form == "plot" else static, form)(report, *more)


forms.report = _report


def load_ipython_extension(shell: InteractiveShell) -> None:
    """``%load_ext dynamo_ext``: add the magics and their completion."""
    from dynamo_ext.magics.dynamo import load

    load(shell)


def unload_ipython_extension(shell: InteractiveShell) -> None:
    """``%unload_ext dynamo_ext``: take everything out again."""
    from dynamo_ext.magics.dynamo import unload

    unload(shell)
