"""Records in, html and widgets out.

``dynamo_ext.widgets.report`` shows the report of a run, ``dynamo_ext.widgets.comparison`` a
comparison, ``dynamo_ext.widgets.backends`` the table of backends. Everything here reads records
alone and never torch, so a saved report can be shown where torch is not installed. ipywidgets is
imported when the first widget is built.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dynamo_ext.widgets.backends import render_backends
    from dynamo_ext.widgets.report.view import ReportView, display_report, report_mimebundle

__all__ = ["ReportView", "display_report", "render_backends", "report_mimebundle"]


def __getattr__(name: str) -> object:
    """Import a public name's module when the name is first used."""
    import importlib

    if name not in __all__:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    home = "backends" if name == "render_backends" else "report.view"
    member: object = getattr(importlib.import_module(f"{__name__}.{home}"), name)
    return member
