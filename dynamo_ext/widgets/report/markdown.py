"""A report as Markdown, short enough for an issue: code, breaks, failed guards, fallbacks."""

from dynamo_ext.formatting import count
from dynamo_ext.records.report import Report
from dynamo_ext.widgets.report import code, fallbacks, guards, static, summary

_LINES = 60  # of a section


def text(report: Report) -> str:
    """Render it; sections without anything to show are left out, and long ones are cut."""
    versions = ", ".join(f"{name} {version}" for name, version in report.versions)
    sections = {
        code.TITLE: code.text(report),
        guards.FAILED: guards.failures_text(report),
        fallbacks.TITLE: fallbacks.text(report),
    }
    shown = [f"#### {title}\n\n{_fenced(body)}" for title, body in sections.items() if body]
    lead = f"### {static.title(report)}\n\n{_fenced(summary.text(report))}"
    return "\n\n".join([lead, *shown, f"Versions: {versions}."]) + "\n"


def _fenced(body: str) -> str:
    """Text as it is, whatever fences it has itself."""
    lines = body.splitlines()
    if len(lines) > _LINES:
        lines = [*lines[:_LINES], f"… {count(len(lines) - _LINES, 'line')} more"]
    fence = "```"
    while fence in body:
        fence += "`"
    return "\n".join([f"{fence}text", *lines, fence])
