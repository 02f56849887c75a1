"""How ``auto`` chose: how often each backend won, and for each graph why the others lost."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from dynamo_ext.formatting import clip, count, listing, seconds
from dynamo_ext.formatting import sentence as sentence_of
from dynamo_ext.records import autotune
from dynamo_ext.records.report import Report
from dynamo_ext.widgets.blocks import Block, Heading, Table

TITLE = "Races"

_HEADERS = [
    "Graph", "Backend", "Outcome", "Time per call", "Speedup over eager", "Largest error", "Why",
]  # fmt: skip
_NUMERIC = {3, 4, 5}
_REASON = 160
_TOGETHER = 3


def sentence(report: Report) -> str:
    """Say how often each backend won, and what the races cost; empty where there were none."""
    held = [graph.contest for graph in report.graphs if graph.contest is not None]
    if not held:
        return ""
    known = sum(contest.remembered for contest in held)
    said = f"auto chose {_winners(held)}."
    if known:
        said += f" {count(known, 'race')} remembered."
    if report.race_seconds:
        said += f" Racing took {seconds(report.race_seconds)}."
    notes = dict.fromkeys(contest.note for contest in held if contest.note)
    together = list(dict.fromkeys(c.confirmation for c in held if c.confirmation is not None))
    # Those where another assignment won come first: they say why a race's winner does not run.
    together.sort(key=lambda found: found.kept == "mix")
    told = [_together(found) for found in together[:_TOGETHER]]
    if len(together) > _TOGETHER:
        told.append(f"{count(len(together) - _TOGETHER, 'such confirmation')} more.")
    checked = [_end_to_end(report.end_to_end)] if report.end_to_end is not None else []
    return " ".join(filter(None, [said, *checked, *notes, *told]))


def _end_to_end(found: autotune.EndToEnd) -> str:
    """What the bound comes to over all graphs, and which stay in float32; none: nothing."""
    if found.lack and found.lowered:
        return (
            f"{found.bound} was checked for each graph alone, and not for all that the cell gives: "
            f"{sentence_of(found.lack)}"
        )
    where = f"on {count(found.inputs, 'other input')}" if found.inputs else "on its own inputs"
    said = []
    if found.kept_full:
        missed = f"was {found.missed:.6g}" if found.missed is not None else "was missed"
        said.append(
            f"{found.bound} {missed} {where}, so {listing(found.kept_full)} "
            f"{'stays' if len(found.kept_full) == 1 else 'stay'} in float32."
        )
    if found.reached is not None and found.lowered:
        when = "an earlier run" if found.earlier else "the cell ran"
        metric = re.split("[<>]", found.bound)[0]
        said.append(
            f"Before {when}, what it gives {where} was compared with {found.reference}: {metric} "
            f"{found.reached:.6g}{' then' if said else ''}, where the bound is {found.bound}."
        )
    if found.unchecked:
        said.append(
            f"{found.bound} was checked for {listing(found.unchecked)} alone, since compiled after "
            "that; the next run checks it on all."
        )
    return " ".join(said)


def over(reports: Sequence[Report]) -> str:
    """Say how often each backend won over several runs; a graph counts where it was compiled."""
    graphs = [graph for report in reports for graph in report.graphs if graph.compiled_now]
    held = [graph.contest for graph in graphs if graph.contest is not None]
    return f"In these runs, auto chose {_winners(held)}." if held else ""


def _winners(held: Sequence[autotune.GraphRace]) -> str:
    won = Counter(contest.winner for contest in held)
    return listing([f"{name} for {count(number, 'graph')}" for name, number in won.most_common()])


def _together(found: autotune.OnlineTrial) -> str:
    rivals = listing([_against(rival) for rival in found.rivals])
    kept = "it is kept" if found.kept == "mix" else f"{found.kept} runs instead"
    return (
        f"Measured during your own calls (up to {count(found.rounds, 'round')}), the choice for "
        f"{count(found.graphs, 'graph')} is {rivals}: {kept}."
    )


def _against(rival: autotune.BaselineComparison) -> str:
    name = rival.name if rival.name == "eager" else f"{rival.name} for all"
    return f"{rival.speedup:.2f}× ({rival.low:.2f}–{rival.high:.2f}) as fast as {name}"


def blocks(report: Report) -> Iterator[Block]:
    """The sentence and a table of every candidate; nothing where there was no race."""
    if said := sentence(report):
        yield Heading(TITLE)
        yield said
        yield Table("Candidates by graph", _HEADERS, list(_rows(report)), _NUMERIC)


def _rows(report: Report) -> Iterator[list[str]]:
    for graph in report.graphs:
        contest = graph.contest
        if contest is None:
            continue
        name = f"{graph.id}, raced {contest.raced_on}" if contest.remembered else graph.id
        # The winner first, then by speed; those that were not timed come last.
        ordered = sorted(
            contest.contestants,
            key=lambda each: (each.backend != contest.winner, not each.seconds, each.seconds),
        )
        for each in ordered:
            yield [name, *_row(each)]
            name = ""


def _row(each: autotune.GraphCandidateResult) -> list[str]:
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
