"""A comparison in words: one sentence that answers, and one that says how it was measured."""

from dynamo_ext.analysis.machine_limit import limit_of, share_of_limit
from dynamo_ext.formatting import clip, count, listing, percent, printable, seconds, sentence
from dynamo_ext.records.comparison import (
    CONFIDENCE,
    FEWEST_ROUNDS,
    USUAL_ROUNDS,
    CandidateResult,
    Comparison,
    Speedup,
)
from dynamo_ext.widgets.comparison.number_text import amount, size

_MAX_NAMES = 4
_MAX_CHARS = 240
_TEN, _HUNDRED, _TENTH = 10, 100, 0.1
_HINT = (
    "%dynamo machine measures what this machine can do; a comparison then shows how near to it "
    "each row is."
)

WORDS = {
    "baseline": "● baseline",
    "faster": "▲ faster",
    "slower": "▼ slower",
    "same": "≈ same",
    "unclear": "? unclear",
    "eager": "○ ran eagerly",
    "wrong": "✗ wrong",
    "failed": "✗ failed",
    "unavailable": "✗ unavailable",
    "none": "– not measured",
}
_BRIEF_WORDS = WORDS | {"eager": "○ eager", "unavailable": "✗ missing", "none": "– none"}
_GRADES = {"faster": "good", "wrong": "bad", "failed": "bad", "eager": "part", "slower": "part"}


def verdict(record: Comparison, candidate: CandidateResult, *, brief: bool = False) -> str:
    """A candidate's verdict as a sign and a word; ``brief`` for a terminal."""
    word = "unavailable" if candidate.outcome == "unavailable" else record.verdict(candidate)
    return (_BRIEF_WORDS if brief else WORDS)[word]


def grade(record: Comparison, candidate: CandidateResult) -> str:
    """``good``, ``part`` or ``bad``, as the style sheet tints it; empty for neither."""
    return _GRADES.get(record.verdict(candidate), "")


def ratio(value: float) -> str:
    """A speedup with three digits (``1.87×``)."""
    if value >= _HUNDRED:
        return f"{value:,.0f}×"
    if value >= _TEN:
        return f"{value:.1f}×"
    return f"{value:.2f}×" if value >= _TENTH else f"{value:.3f}×"


def interval(speedup: Speedup) -> str:
    """The bounds of a speedup (``1.80–1.93``)."""
    return f"{ratio(speedup.low)[:-1]}–{ratio(speedup.high)[:-1]}"


def counted(record: Comparison, candidate: CandidateResult) -> bool:
    """Whether the candidate's speedup means anything: it is right, and ran in its engine."""
    measured = candidate.outcome == "measured" and candidate.speedup is not None
    return measured and candidate.name != record.baseline


def headline(record: Comparison) -> str:
    """Answer which backend is faster, whether it is right and whether compiling pays off."""
    said = [doubt(record)] if record.undecided else [_answer(record), _others(record)]
    return " ".join(filter(None, [_partial(record), *said]))


def doubt(record: Comparison) -> str:
    """Why what was measured decides nothing, and what it was; empty where it decides."""
    base = record.base
    if record.on_busy_machine:
        why = f"other programs kept {record.busy_cores:.1f} cores busy meanwhile"
    elif record.slowed_down and base is not None and base.timing is not None:
        why = (
            f"the first call of {printable(base.name)} took {seconds(base.first_call_seconds)} and "
            f"later ones {seconds(base.timing.median)}, so that something slowed the machine down"
        )
    else:
        return ""
    found = [
        f"{printable(each.name)} {ratio(each.speedup.ratio)} ({interval(each.speedup)})"
        for each in record.candidates
        if counted(record, each) and each.speedup
    ]
    measured = f" Measured: {listing(found, _MAX_NAMES)}." if found else ""
    return f"No verdict: {why}.{measured} Compare again when it is idle."


def status(record: Comparison) -> tuple[str, str]:
    """The comparison's own verdict: a grade, and a sign with a word."""
    if record.interrupted or record.partial:
        return "part", "◐ interrupted" if record.interrupted else "◐ partial"
    if record.undecided:
        return "part", "? no verdict"
    if record.best is not None:
        return "good", "▲ faster"
    if not any(counted(record, each) for each in record.candidates):
        return "bad", "✗ nothing to compare"
    if any(record.verdict(each) == "unclear" for each in record.candidates):
        return "part", "? unclear"
    return "part", "● stay with the baseline"


def limit(record: Comparison) -> str:
    """What a run asks for, and how near to its limit the fastest row is; may be empty."""
    work, nearest = record.work, record.best or record.base
    if work is None or not work.size:
        return ""
    asked = f"A run moves at least {size(work.size)} and computes no products"
    if work.operations:
        products = amount(work.operations, "FLOP")
        asked = f"A run computes {products} in products and moves at least {size(work.size)}"
    if record.machine is None:
        return f"{asked}. {_HINT}"
    least = limit_of(record, nearest) if nearest is not None else None
    if nearest is None or least is None or (share := share_of_limit(record, nearest)) is None:
        return f"{asked}."
    reaches = f"{printable(nearest.name)} reaches {percent(share)} of the limit of this machine"
    bound = f"{seconds(least.seconds)}, bound by {least.bound}"
    return f"{asked}: {reaches} in {least.precision} ({bound})."


def closing(record: Comparison) -> str:
    """How it was measured, on what, in one line."""
    method = (
        f"{count(record.rounds, 'round')} interleaved in random order (seed {record.seed}); "
        "times are medians, speedups the medians of ratios within a round, so the two may differ; "
        f"{CONFIDENCE:.0%} interval of the sign test"
    )
    facts = [
        method,
        "forward and backward" if record.train else "",
        f"in {record.dtype}" if record.dtype else "",
        "each candidate in a process of its own" if record.isolated else "",
        f"{seconds(record.seconds)} in all, budget {seconds(record.budget)}",
        record.device,
        count(record.threads, "thread") if record.threads else "",
        *(f"{name} {version}" for name, version in record.versions),
    ]
    return " · ".join(printable(fact) for fact in facts if fact)


def _partial(record: Comparison) -> str:
    if not record.partial and not record.interrupted:
        return ""
    when = f"after {count(record.rounds, 'round')}" if record.rounds else "before any round"
    budget = f" of {seconds(record.budget)}" if record.rounds else ""
    ended = "interrupted" if record.interrupted else f"the budget{budget} ended"
    return f"Partial: {ended} {when}."


def _answer(record: Comparison) -> str:
    best, base = record.best, printable(record.baseline)
    if best is None or best.speedup is None:
        return _none_faster(record)
    speedup = best.speedup
    name, title = printable(best.name), printable(record.title)
    where = f" on {clip(' '.join(title.split()), 60)}" if title else ""
    bounds = f"{CONFIDENCE:.0%} interval {interval(speedup)}"
    right = " and right" if best.accuracy else "; its results were not compared"
    if record.rounds and not record.partial:
        bounds += f", {count(speedup.rounds, 'round')}"
    said = f"{name} is {ratio(speedup.ratio)} as fast as {base}{where} ({bounds}){right}"
    calls = record.break_even(best)
    if calls is not None:
        pays = f"after {count(int(calls), 'call')}" if calls >= 1 else "at the first call"
        said += f"; compiling pays off {pays}"
    return f"{said}."


def _none_faster(record: Comparison) -> str:
    others = [each for each in record.candidates if each.name != record.baseline]
    base = printable(record.baseline)
    if not others:
        return f"There is nothing to compare {base} with."
    names = [f"{printable(each.name)} {_came_to(record, each)}" for each in others]
    said = listing(names, _MAX_NAMES, "more in the table")
    measured = any(counted(record, each) for each in others)
    if any(record.verdict(each) == "unclear" for each in others):
        return f"No backend was found to be faster than {base}: {said}. {_how_to_tell(others)}"
    lead = f"No backend is faster than {base}" if measured else "No backend could be compared"
    return f"{lead}: {said}."


def _how_to_tell(others: list[CandidateResult]) -> str:
    rounds = [each.speedup.rounds for each in others if each.speedup and each.speedup.too_few]
    if not rounds:
        return "Measure longer, or with less else running."
    few = f"{count(min(rounds), 'round')} {'is' if min(rounds) == 1 else 'are'} too few to tell"
    return f"{few}: ask for {FEWEST_ROUNDS} or more, better {USUAL_ROUNDS}."


def _came_to(record: Comparison, candidate: CandidateResult) -> str:
    word, speedup = record.verdict(candidate), candidate.speedup
    if word == "unclear" and speedup is not None:
        if speedup.too_few:
            return f"measured {interval(speedup)}×"
        if record.contradicts(candidate):
            rounds, median = ("faster", "slower")[:: 1 if speedup.ratio > 1 else -1]
            return f"is {rounds} by its rounds and {median} by its median, which is noise"
        return f"is inconclusive ({interval(speedup)}×)"
    if word in {"same", "slower"} and speedup is not None:
        return f"is {'the same' if word == 'same' else 'slower'} ({ratio(speedup.ratio)})"
    if candidate.outcome == "unavailable":
        return "is not available"
    outcomes = {"eager": "ran eagerly", "wrong": "gave wrong results", "failed": "failed"}
    return outcomes.get(word, "was not measured")


def _others(record: Comparison) -> str:
    """What qualifies the answer: a rival within the noise, and rows that are not compared."""
    best = record.best
    if best is None or best.speedup is None:
        return ""
    said = []
    rivals = [
        printable(each.name)
        for each in record.candidates
        if each is not best
        and record.verdict(each) == "faster"
        and each.speedup
        and each.speedup.high >= best.speedup.low
    ]
    if rivals:
        said.append(f"{listing(rivals[:_MAX_NAMES])} may be as fast: the intervals overlap.")
    left = [
        f"{printable(each.name)} {_came_to(record, each)}"
        for each in record.candidates
        if record.verdict(each) in {"eager", "wrong", "failed"}
    ]
    said.append(sentence(listing(left, _MAX_NAMES, "more were not compared")))
    return clip(" ".join(said), _MAX_CHARS)
