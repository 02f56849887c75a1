"""How ``auto`` chose: how often each backend won, and for each graph why the others lost."""

import re
from collections import Counter
from collections.abc import Iterator

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
    won = Counter(contest.winner for contest in held).most_common()
    chosen = listing([f"{name} for {count(number, 'graph')}" for name, number in won])
    said = f"auto chose {chosen}."
    if known := sum(contest.remembered for contest in held):
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


def _end_to_end(check: autotune.EndToEnd) -> str:
    """What the bound comes to over all graphs, and which stay in float32; none: nothing."""
    if check.lack and check.lowered:
        return (
            f"{check.bound} was checked for each graph alone, and not for all that the cell gives: "
            f"{sentence_of(check.lack)}"
        )
    where = f"on {count(check.inputs, 'other input')}" if check.inputs else "on its own inputs"
    said = []
    if check.kept_full:
        missed = f"was {check.missed:.6g}" if check.missed is not None else "was missed"
        said.append(
            f"{check.bound} {missed} {where}, so {listing(check.kept_full)} "
            f"{'stays' if len(check.kept_full) == 1 else 'stay'} in float32."
        )
    if check.reached is not None and check.lowered:
        when = "an earlier run" if check.earlier else "the cell ran"
        metric = re.split("[<>]", check.bound)[0]
        said.append(
            f"Before {when}, what it gives {where} was compared with {check.reference}: {metric} "
            f"{check.reached:.6g}{' then' if said else ''}, where the bound is {check.bound}."
        )
    if check.unchecked:
        said.append(
            f"{check.bound} was checked for {listing(check.unchecked)} alone, since compiled after "
            "that; the next run checks it on all."
        )
    return " ".join(said)


def _together(trial: autotune.OnlineTrial) -> str:
    rivals = listing([_against(rival) for rival in trial.rivals])
    kept = "it is kept" if trial.kept == "mix" else f"{trial.kept} runs instead"
    return (
        f"Measured during your own calls (up to {count(trial.rounds, 'round')}), the choice for "
        f"{count(trial.graphs, 'graph')} is {rivals}: {kept}."
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


def _row(candidate: autotune.GraphCandidateResult) -> list[str]:
    # One round has no interval: both ends are the one ratio.
    low, high = candidate.low, candidate.high
    interval = f" ({low:.2f}–{high:.2f})" if low < high else " in 1 round"
    signs = {"won": "✓ won", "wrong": "✗ wrong", "failed": "✗ failed", "crashed": "✗ crashed"}
    return [
        candidate.backend,
        signs.get(candidate.outcome, candidate.outcome),
        seconds(candidate.seconds) if candidate.seconds else "",
        f"{candidate.speedup:.2f}×{interval}" if candidate.speedup and low else "",
        f"{candidate.error:.1e}" if candidate.error else "",
        clip(" ".join(candidate.reason.split()), _REASON),
    ]
