"""Graph breaks in the code of installed packages, where no line is the user's to change."""

from dataclasses import dataclass

from dynamo_ext.analysis.break_location import in_package, line_in_words, origin
from dynamo_ext.analysis.breaks import BUILD_BEFORE, cause_of
from dynamo_ext.formatting import listing
from dynamo_ext.records.capture import GraphBreak
from dynamo_ext.records.report import Report

_BEFOREHAND = (
    "If it only prepares itself at its first call, make that call before the compiled code."
)
_COMPUTES_ALONE = (
    "Else compile what computes, as in model.forward = dynamo_ext.optimize(…)(model.forward), and "
    "call the rest in a plain cell."
)


@dataclass(frozen=True)
class LibraryBreaks:
    """Breaks in one package: why, each reason once, and ``step``, what to do from outside."""

    package: str
    breaks: tuple[GraphBreak, ...]
    reasons: tuple[str, ...]
    step: str
    harmless: bool

    def called_at(self, most: int | None = None) -> str:
        """The other lines that led there, as far as they are known."""
        places = {line_in_words(origin(each)) for each in self.breaks}
        lines = dict.fromkeys(line_in_words(each.line) for each in self.breaks)
        return listing([line for line in lines if line and line not in places], most)


def library_breaks(report: Report) -> tuple[LibraryBreaks, ...]:
    """The breaks of a report in packages other than torch, by package."""
    packages: dict[str, list[GraphBreak]] = {}
    for each in report.breaks:
        if name := in_package(each):
            packages.setdefault(name, []).append(each)
    # Functions that run in Python as they are to, where modules that they call are captured.
    meant = {fallback.subject for fallback in report.fallbacks if fallback.harmless}
    captured = any(frame.graphs and not frame.in_cell for frame in report.frames)
    python = {frame.name for frame in report.frames if captured and frame.id in meant}
    return tuple(_group(name, tuple(group), python) for name, group in packages.items())


def _group(name: str, breaks: tuple[GraphBreak, ...], python: set[str]) -> LibraryBreaks:
    causes = [cause_of(each) for each in breaks]
    causes = [cause for cause in causes if cause.outside == BUILD_BEFORE][:1] or causes
    # The break that was met while such a function was still traced divides nothing.
    within = [{line.function for line in each.stack} & python for each in breaks]
    harmless = all(within) or all(cause.harmless for cause in causes)
    outside = dict.fromkeys(cause.outside for cause in causes if not cause.harmless)
    step = " ".join(each[:1].upper() + each[1:] for each in outside)
    if all(within):
        functions = listing([f"`{function}`" for function in sorted(set().union(*within))])
        step = f"Nothing needs to be done: {functions} runs in Python, what it calls is captured."
    elif harmless:
        step = causes[0].step
    elif "" in outside:
        step = f"{_BEFOREHAND} {_COMPUTES_ALONE}"
    reasons = tuple(dict.fromkeys(cause.because for cause in causes))
    return LibraryBreaks(name, breaks, reasons, step, harmless)
