"""Records in, html and widgets out.

``dynamo_ext.widgets.report`` shows the report of a run, ``dynamo_ext.widgets.comparison`` a
comparison, ``dynamo_ext.widgets.backends`` the table of backends. Everything here reads records
alone and never torch, so a saved report can be shown where torch is not installed. ipywidgets is
imported when the first widget is built.
"""

from dynamo_ext.widgets.backends import render_backends
from dynamo_ext.widgets.report.view import ReportView, display_report, report_mimebundle

__all__ = ["ReportView", "display_report", "render_backends", "report_mimebundle"]
