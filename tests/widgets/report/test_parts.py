from __future__ import annotations

import dataclasses

from dynamo_ext.records.capture import Guard, Recompile
from dynamo_ext.widgets.report import fallbacks, guards, summary, timing


def test_a_part_of_the_time_is_not_shown_as_none_of_it(reports):
    report = dataclasses.replace(reports["mixed"], seconds=100.0, profile_seconds=0.0)
    rows = [line.split() for line in timing.text(report).split("\n")]
    assert ["Running", "graphs", "1.11", "ms", "<1%"] in rows


def test_failed_guards_come_first_with_expected_and_actual(reports, page):
    read = page(guards.html(reports["mixed"])).text
    assert read.startswith("40 guards on 2 functions. Guards that failed")
    assert "x cell · line 4 2 expected 8, got 12; compiled again." in read
    assert "%%dynamo --dynamic" in read.split("tensor 'x' size mismatch at index 0.")[0]
    assert "x: expected 8, got 12; compiled again." in guards.text(reports["mixed"])


def test_guards_are_grouped_by_variable_and_equal_ones_merged(reports, page):
    read = page(guards.html(reports["mixed"])).text
    assert "model : 36 guards" in read
    assert read.count("x must keep its dtype, device and shape.") == 1
    assert "0/0, 1/0" in read
    assert "other conditions gradient mode must stay as it was." in read


def test_two_guards_with_one_sentence_are_two_in_every_part(reports, page):
    kept = Guard("0/0", "self", "L['self']", "HASATTR", code=("not hasattr(a)",), subject="self")
    other = dataclasses.replace(kept, code=("not hasattr(b)",))
    again = dataclasses.replace(kept, frame="1/0")
    frames = tuple(
        dataclasses.replace(each, guards=guards)
        for each, guards in zip(reports["clean"].frames, (2, 1, 0), strict=True)
    )
    report = dataclasses.replace(
        reports["clean"], guards=(kept, other, again), frames=frames, recompiles=()
    )
    said = guards.text(report)
    assert dict(summary.counts(report))["Guards"] == "3"
    assert said.startswith("3 guards on 2 functions.")
    assert "self: 3 guards\n" in said
    assert said.count("· `self` must keep its attributes") == 2
    assert "· `self` must keep its attributes (0/0, 1/0)" in said
    assert page(guards.html(report)).text.count("self must keep its attributes.") == 2


def test_a_prevented_recompile_is_said_to_have_run_eagerly(reports):
    assert "ran eagerly, as run never compiles" in guards.html(reports["run"])


def test_a_fact_without_values_is_a_sentence_without_gaps(reports, page):
    odd = Recompile("0/0", "cell", "(n % 2) == 0", "n", "", "")
    report = dataclasses.replace(reports["mixed"], recompiles=(odd,))
    said = guards.text(report)
    assert "n: `(n % 2) == 0` does not hold; compiled again." in said
    assert "See Guards" not in said
    assert "n cell 1 (n % 2) == 0 does not hold; compiled again." in page(guards.html(report)).text


def test_owners_beyond_a_dozen_are_one_fold_with_their_number(reports, page):
    many = tuple(
        Guard("0/0", f"v{index // 6}", f"L['v'].a{index}", "EQUALS_MATCH", expected="1")
        for index in range(6 * 20)
    )
    made = page(guards.html(dataclasses.replace(reports["clean"], guards=many), None)).text
    shown, folded = made.split("8 more with 48 guards")
    assert (shown.count(": 6 guards"), folded.count(": 6 guards")) == (12, 8)


def test_no_guard_no_part(reports):
    assert guards.html(reports["nothing"]) == guards.text(reports["nothing"]) == ""


def test_fallbacks_show_stage_subject_message_and_remedy(reports, page):
    read = page(fallbacks.html(reports["mixed"])).text
    assert (
        "unsupported the engine does not support it partition g1:p0, aten.sort.default , line 6"
        in read
    )
    assert "Sort outside of the cell." in read
    assert "→ pip install apache-tvm" in fallbacks.text(reports["unavailable"]).split("\n")[-1]
    assert "<code>pip install apache-tvm</code>" in fallbacks.html(reports["unavailable"])


def test_an_absent_backend_is_the_first_fallback(reports):
    gone = reports["unavailable"].fallbacks
    both = dataclasses.replace(reports["mixed"], fallbacks=(*reports["mixed"].fallbacks, *gone))
    assert fallbacks.text(both).startswith("unavailable")


def test_a_long_error_folds_in_html_and_is_cut_in_text(reports, page):
    made = fallbacks.html(reports["lower"])
    read = page(made)
    assert [tag for tag, _ in read.tags].count("details") == 1
    assert "at node_399 <i>" in read.text
    assert made.count("RuntimeError") == 1, "the message's own prefix is not said twice"
    assert len(fallbacks.text(reports["lower"]).split("\n")) < 8
    assert fallbacks.html(reports["clean"]) == fallbacks.text(reports["clean"]) == ""


def test_timing_parts_add_up_to_the_run(reports):
    made = " ".join(timing.text(reports["mixed"]).split())
    assert "Compiling 1.03 s 64%" in made
    assert "Whole run 1.60 s" in made
    assert "237 µs" in made
    assert "torch 2.13.0 · onnxruntime 1.30" in made


def test_what_loading_took_before_the_run_is_said_where_it_is_notable(reports):
    loads = (("torch._dynamo", 2.5), ("tvm", 0.8))
    slow = dataclasses.replace(reports["mixed"], loads=loads)
    said = "Before the run, loading torch._dynamo took 2.50 s and tvm took 800 ms."
    assert said in " ".join(timing.text(slow).split())
    quick = dataclasses.replace(slow, loads=(("torch._dynamo", 0.01), ("tvm", 0.0)))
    assert "loading" not in timing.text(quick)


def test_timing_of_an_instant_run_divides_by_nothing(reports):
    zero = dataclasses.replace(reports["clean"], seconds=0.0, compile_seconds=0.0)
    idle = dataclasses.replace(zero.graphs[0], calls=0)
    assert "0 s" in timing.text(dataclasses.replace(zero, graphs=(idle,)))


def test_a_failed_guard_says_what_helps(reports, page):
    for read in (page(guards.html(reports["mixed"])).text, guards.text(reports["mixed"])):
        assert "mark_dynamic(x, 0)" in " ".join(read.split())


def test_races_have_a_line_of_their_own(reports, page):
    raced = dataclasses.replace(reports["mixed"], seconds=5.0, compile_seconds=1.0)
    raced = dataclasses.replace(raced, race_seconds=3.0)
    assert raced.run_seconds == 1.0
    for read in (page(timing.html(raced)).text, timing.text(raced)):
        assert "Racing backends 3.00 s 60%" in " ".join(read.split())


def test_backward_passes_are_no_part_of_everything_else(reports, page):
    clean = dataclasses.replace(reports["clean"], seconds=4.0, compile_seconds=1.0)
    graph = dataclasses.replace(clean.graphs[0], run_seconds=1.0)
    timed = dataclasses.replace(graph, backward_seconds=1.5)
    trained = dataclasses.replace(clean, graphs=(timed,))
    for read in (page(timing.html(trained)).text, timing.text(trained)):
        said = " ".join(read.split())
        assert "Their backward passes 1.50 s 38%" in said
        assert "Python and uncaptured code 500 ms" in said
    unknown = dataclasses.replace(
        clean, graphs=(dataclasses.replace(graph, backward_untimed=True),)
    )
    assert "Python and uncaptured code includes any backward passes" in timing.text(unknown)
    assert "backward" not in timing.text(clean)


def test_timing_tells_operators_by_their_time_in_eager(reports, page):
    read = page(timing.html(reports["profiled"])).text
    assert "Operator Calls In eager Share Ran in" in read
    assert "times of single operations inside an engine are not available" in read
    assert "The operations of g1 could not be timed: RuntimeError: no kernel." in read
    assert "Share" in timing.text(reports["profiled"])
    assert "Operator" not in page(timing.html(reports["clean"])).text


def test_times_of_operations_on_a_busy_machine_decide_nothing(reports):
    busy = dataclasses.replace(reports["profiled"], profile_busy_cores=0.7)
    assert "0.7 cores busy while operations were timed" in " ".join(timing.text(busy).split())
    assert "busy" not in timing.text(reports["profiled"])
