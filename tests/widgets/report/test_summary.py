from __future__ import annotations

import dataclasses

import pytest

from dynamo_ext.analysis.advice_step import Advice
from dynamo_ext.records.capture import Frame
from dynamo_ext.records.report import Fallback
from dynamo_ext.widgets.report import summary, timing

SIGNS = {
    "mixed": "◐ partly eager",
    "clean": "✓ compiled",
    "unavailable": "✗ backend unavailable",
    "lower": "✗ all eager",
    "nothing": "✗ no graph",
    "run": "◐ partly eager",
    "interrupted": "◐ interrupted",
    "error": "✗ stopped by an error",
}


def headline_of(report):
    return " ".join(summary.text(report).split())


@pytest.mark.parametrize("name", SIGNS)
def test_verdicts(reports, name):
    assert summary.status(reports[name])[1] == SIGNS[name]


def test_no_fallback_is_called_a_success(report):
    if report.fallbacks or not report.graphs:
        assert "✓" not in summary.text(report)
        assert summary.status(report)[0] != "good"


def test_headline_gives_the_share_the_cause_and_the_remedy(reports, page):
    words = headline_of(reports["mixed"])
    assert "onnxrt ran 4 of 5 operations in 2 graphs; 1 ran eagerly." in words
    assert "Line 12 of `step` in train.py, called at line 5, splits the graph because it" in words
    read = page(summary.html(reports["mixed"])).text
    assert "keeps 1 of 5 operations out of onnxrt: onnxrt has no stable sort." in read
    assert "Sort outside of the cell. 20% of the operations" in read


def test_an_unavailable_backend_comes_first_with_its_command(reports, page):
    words = " ".join(summary.text(reports["unavailable"]).split())
    assert words.startswith("✗ backend unavailable Gain Not measured. Nothing ran in tvm: 1 graph")
    assert "Next tvm is not available here: " in words
    read = page(summary.html(reports["unavailable"])).text
    assert "Install it with: pip install apache-tvm Graphs" in read, "no full stop to copy"


def test_nothing_captured_is_said_with_the_reason(reports):
    nothing = reports["nothing"]
    assert "Nothing was captured" in headline_of(nothing)
    skipped = Frame("0", "f", "x.py", 1, "skipped", reason="it has no tensor")
    assert "it has no tensor." in headline_of(dataclasses.replace(nothing, frames=(skipped,)))
    assert "under %%dynamo first" in headline_of(dataclasses.replace(nothing, mode="run"))


def test_breaks_and_recompiles_suggest_the_next_step(reports):
    mixed, clean = reports["mixed"], reports["clean"]
    broken = dataclasses.replace(clean, breaks=mixed.breaks)
    assert summary.status(broken)[1] == "✓ compiled, with breaks"
    assert "called at line 5, splits the graph because it prints." in headline_of(broken)
    again = dataclasses.replace(clean, recompiles=mixed.recompiles)
    assert "2 recompiles came from the batch size of `x`" in headline_of(again)
    assert "4 calls fitted no compiled code, because the batch size of `x` changed" in headline_of(
        reports["run"]
    )


def test_error_and_interruption_are_told(reports, rude):
    assert f"raised ValueError: {rude}" in headline_of(reports["error"])
    assert "Interrupted after 1.60 s" in headline_of(reports["interrupted"])


def test_an_error_before_the_first_graph_is_its_own_reason(reports):
    failed = Frame(
        "0", "f", "x.py", 1, "failed", reason="RuntimeError when making fake tensor call"
    )
    report = dataclasses.replace(reports["nothing"], frames=(failed,), error="RuntimeError: 3x4")
    (_, gained), *_ = summary.lines(report)
    assert gained == "Not measured. The code raised RuntimeError: 3x4. Nothing was captured."


def test_run_says_once_that_nothing_fits(reports):
    report = dataclasses.replace(reports["run"], graphs=(), fallbacks=(), frames=())
    said = headline_of(report)
    assert "Gain Not measured. Nothing ran compiled: run only reuses compiled code. Cost" in said
    assert "Next 4 calls fitted no compiled code" in said
    assert said.count("under %%dynamo") == 1


def test_a_graph_that_was_never_called_did_not_run(reports):
    clean = reports["clean"]
    idle = dataclasses.replace(clean, graphs=(dataclasses.replace(clean.graphs[0], calls=0),))
    assert summary.status(idle) == ("bad", "✗ nothing ran compiled")


def test_the_eager_backend_is_no_fallback(reports):
    clean = reports["clean"]
    graph = dataclasses.replace(clean.graphs[0], backend="eager")
    plain = dataclasses.replace(clean, backend="eager", graphs=(graph,))
    assert summary.status(plain) == ("good", "✓ captured")
    assert "runs them as they are" in headline_of(plain)


def plain(reports, *names):
    """The clean run, where functions of these names ran as plain Python besides."""
    clean = reports["clean"]
    frames = [Frame(f"9/{n}", name, "x.py", 1, "skipped") for n, name in enumerate(names)]
    left = [Fallback("capture", "frame", f.id, "", "Unsupported", "it loops", "") for f in frames]
    return dataclasses.replace(clean, frames=(*clean.frames, *frames), fallbacks=tuple(left))


def test_what_was_not_captured_is_not_among_all(reports):
    found = plain(reports, "train", "fit", "<module>")
    said = headline_of(found)
    assert "captured operations in" in said
    assert "; `train`, `fit` and part of the cell ran as plain Python." in said
    assert " captured " in summary.text(found).split("\n")[-1]
    many = headline_of(plain(reports, *"abcde"))
    assert "`a`, `b`, `c` and 2 more ran as plain Python." in many
    assert "captured" not in headline_of(reports["clean"])


def test_counts(reports):
    header, _, values = summary.text(reports["mixed"]).split("\n")[-3:]
    assert header.split() == [
        "Graphs",
        "Operations",
        "In",
        "onnxrt",
        "Breaks",
        "Guards",
        "Recompiles",
        "Fallbacks",
        "Compile",
        "Run",
    ]
    assert values.split() == [
        "2",
        "5",
        "4",
        "of",
        "5",
        "1",
        "40",
        "2",
        "1",
        "1.03",
        "s",
        "570",
        "ms",
    ]


def test_further_steps_and_what_needs_no_change_are_counted_and_fold(reports, page, monkeypatch):
    steps = [Advice("break", f"Problem {n}", f"Do {n}.", "", 0.5) for n in range(7)]
    idle = [Advice("break", "Harmless", "Nothing needs to be done.", "", 0.05)]
    monkeypatch.setattr(summary, "advise", lambda _: (*steps, *idle))
    made = summary.html(reports["mixed"])
    read = page(made).text
    assert "Next Problem 0. Do 0." in read
    assert "Details, and 6 other steps" in read
    assert "1 remark on what needs no change" in read
    assert "Problem 6" in read
    assert made.count("<details") == 2
    said = summary.text(reports["mixed"])
    assert "3 more." in said
    assert "1 remark on what needs no change." in said
    assert "Harmless" not in said


def test_a_step_for_two_problems_is_said_once(reports, page, monkeypatch):
    steps = [Advice("break", f"Problem {n}", "Do this.", "", 0.5) for n in range(2)]
    monkeypatch.setattr(summary, "advise", lambda _: tuple(steps))
    for read in (page(summary.html(reports["mixed"])).text, summary.text(reports["mixed"])):
        assert "Problem 0. Do this." in read
        assert "Problem 1." in read
        assert read.count("Do this") == 1


def test_a_graph_has_one_number_of_operations_and_the_other_is_named(reports, page):
    clean = reports["clean"]
    whole, split = clean.graphs[0], reports["mixed"].graphs[1]
    (part,) = reports["mixed"].graphs[0].partitions
    many = dataclasses.replace(whole, partitions=(dataclasses.replace(part, operations=744),))
    report = dataclasses.replace(clean, graphs=(many,))
    assert "onnxrt ran all 2 operations in 1 graph" in headline_of(report)
    assert dict(summary.counts(report))["In onnxrt"] == "all"
    assert "744" not in summary.text(report) + timing.text(report)
    parts = tuple(dataclasses.replace(each, operations=400) for each in split.partitions)
    some = dataclasses.replace(clean, graphs=(dataclasses.replace(split, partitions=parts),))
    assert "onnxrt ran 400 of 800 ATen operations in 1 graph; 400 ran eagerly" in headline_of(some)
    assert dict(summary.counts(some))["In onnxrt"] == "400 of 800 ATen"
