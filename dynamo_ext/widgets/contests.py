"""How ``auto`` chose: who won how often, and for each graph why the others lost."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from dynamo_ext.widgets import markup, plain
from dynamo_ext.widgets.markup import EMPTY, Html, element
from dynamo_ext.wording import clip, count, listing, seconds

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from dynamo_ext.records import Confirmation, Contest, Contestant, Report, Rival

TITLE = "Races"

_HEADERS = ["Graph", "Backend", "Came to", "A call", "Speedup over eager", "Largest error", "Why"]
_NUMERIC = {3, 4, 5}
_REASON = 160
_TOGETHER = 3


def sentence(report: Report) -> str:
    """Say who won how often, and what the races cost; empty where there were none."""
    held = [graph.contest for graph in report.graphs if graph.contest is not None]
    if not held:
        return ""
    known = sum(contest.remembered for contest in held)
    raced = sum(contest.seconds for contest in held if not contest.remembered)
    said = f"auto chose {_winners(held)}."
    if known:
        said += f" {count(known, 'race')} remembered."
    if raced:
        said += f" Racing took {seconds(raced)}."
    notes = dict.fromkeys(contest.note for contest in held if contest.note)
    together = list(dict.fromkeys(c.confirmation for c in held if c.confirmation is not None))
    # Those where another assignment won come first: they say why a race's winner does not run.
    together.sort(key=lambda found: found.kept == "mix")
    told = [_together(found) for found in together[:_TOGETHER]]
    if len(together) > _TOGETHER:
        told.append(f"{count(len(together) - _TOGETHER, 'such confirmation')} more.")
    return " ".join([said, *notes, *told])


def over(reports: Sequence[Report]) -> str:
    """Say who won how often over several runs, each graph counted where it was compiled."""
    graphs = [graph for report in reports for graph in report.graphs if graph.compiled_now]
    held = [graph.contest for graph in graphs if graph.contest is not None]
    return f"In these runs, auto chose {_winners(held)}." if held else ""


def _winners(held: Sequence[Contest]) -> str:
    won = Counter(contest.winner for contest in held)
    return listing([f"{name} for {count(number, 'graph')}" for name, number in won.most_common()])


def _together(found: Confirmation) -> str:
    """Say what graphs' winners came to in the user's own calls."""
    rivals = listing([_against(rival) for rival in found.rivals])
    kept = {"mix": "it stays", "eager": "eager runs instead"}.get(
        found.kept, f"{found.kept} runs instead"
    )
    return (
        f"In your code's own calls, up to {count(found.rounds, 'time')} each, the choice for "
        f"{count(found.graphs, 'graph')} came to {rivals}: {kept}."
    )


def _against(rival: Rival) -> str:
    name = rival.name if rival.name == "eager" else f"{rival.name} for all"
    return f"{rival.speedup:.2f}× ({rival.low:.2f}–{rival.high:.2f}) of {name}"


def html(report: Report) -> Html:
    """Render the sentence and a table of every contestant."""
    said = sentence(report)
    if not said:
        return EMPTY
    rows = list(_rows(report))
    return element(
        "div",
        element("h4", TITLE),
        element("p", said),
        markup.table("Contestants by graph", _HEADERS, rows, numeric=_NUMERIC),
    )


def text(report: Report) -> str:
    """Render the same for a terminal."""
    said = sentence(report)
    if not said:
        return ""
    return plain.paragraph(said) + "\n\n" + plain.table(_HEADERS, _rows(report), numeric=_NUMERIC)


def _rows(report: Report) -> Iterator[list[str]]:
    for graph in report.graphs:
        contest = graph.contest
        if contest is None:
            continue
        name = f"{graph.id}, raced {contest.raced_on}" if contest.remembered else graph.id
        for place, contestant in enumerate(_ordered(contest)):
            yield [name if place == 0 else "", *_row(contestant)]


def _ordered(contest: Contest) -> list[Contestant]:
    """The winner first, then by speed; who was not timed comes last."""
    return sorted(
        contest.contestants,
        key=lambda each: (each.backend != contest.winner, not each.seconds, each.seconds),
    )


def _row(each: Contestant) -> list[str]:
    # One round has no interval: both ends are the one ratio.
    interval = f" ({each.low:.2f}–{each.high:.2f})" if each.low < each.high else " in 1 round"
    signs = {"won": "✓ won", "wrong": "✗ wrong", "failed": "✗ failed", "crashed": "✗ crashed"}
    return [
        each.backend,
        signs.get(each.outcome, each.outcome),
        seconds(each.seconds) if each.seconds else "",
        f"{each.speedup:.2f}×{interval}" if each.speedup and each.low else "",
        f"{each.error:.1e}" if each.error else "",
        clip(" ".join(each.reason.split()), _REASON),
    ]
