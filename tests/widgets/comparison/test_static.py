from __future__ import annotations

import dataclasses
import json
import re
import warnings

import pytest
from matplotlib import style
from matplotlib.figure import Figure

from dynamo_ext.api.compare import ComparisonResult
from dynamo_ext.errors import OptionError
from dynamo_ext.records.comparison import FEWEST_ROUNDS, Comparison, Speedup, Timing
from dynamo_ext.timing import race
from dynamo_ext.widgets import plain_text
from dynamo_ext.widgets.comparison import columns, number_text, static, table
from dynamo_ext.widgets.comparison.chart import KINDS, Chart
from dynamo_ext.widgets.comparison.summary import closing, headline, ratio, status
from tests.widgets.comparisons import speedup

STRIPPED = re.compile(r"<style>.*?</style>|<svg.*?</svg>|var\([^)]*\)", re.DOTALL)


def body(made: str) -> str:
    """Without the image, whose tag has no end."""
    return re.sub(r"<img [^>]*>", "", made)


def test_the_answer_names_the_fastest_right_one(compared):
    said = headline(compared["full"])
    assert said.startswith(
        "openvino is 1.87× as fast as eager on Cell In[7] (95% interval 1.81–1.93, 40 rounds) "
        "and right; compiling pays off after "
    )
    assert "inductor may be as fast: the intervals overlap." in said
    assert "tvm gave wrong results, lazy ran eagerly, tensorrt is not available" in said
    assert status(compared["full"]) == ("good", "▲ faster")


def test_a_speedup_that_the_medians_contradict_is_noise(compared):
    record = compared["none"]
    slow = Timing((1.78,) * 20)
    noisy = dataclasses.replace(record.candidates[1], speedup=speedup(1.12), timing=slow)
    record = dataclasses.replace(record, candidates=(record.candidates[0], noisy))
    assert record.verdict(noisy) == "unclear"
    assert "onnxrt is faster by its rounds and slower by its median, which is noise" in (
        headline(record)
    )


def test_it_ends_with_the_line_of_the_best_one(compared):
    record = compared["full"]
    line = 'torch.compile(model, backend="dx_openvino")'
    rows = [dataclasses.replace(c, program=f"{line}{c.name}") for c in record.candidates]
    told = static.text(dataclasses.replace(record, candidates=tuple(rows)))
    assert f"In a program: `{line}openvino`" in " ".join(told.split())
    assert "In a program" not in static.text(compared["none"])


def test_no_backend_faster_is_said_with_what_each_came_to(compared):
    said = headline(compared["none"])
    assert said.startswith("No backend is faster than eager: onnxrt is the same (1.00×), ts is ")
    assert "slower (0.35×)" in said
    assert "lazy ran eagerly" in said
    assert status(compared["none"])[1] == "● stay with the baseline"


def test_what_the_rounds_do_not_show_is_not_called_the_same(compared, page):
    record = compared["none"]
    wide = Speedup(1.36, 0.32, 9.06, 6)
    open_ = dataclasses.replace(record.candidates[1], speedup=wide)
    record = dataclasses.replace(record, candidates=(record.candidates[0], open_))
    said = headline(record)
    assert said == (
        "No backend was found to be faster than eager: onnxrt is inconclusive (0.32–9.06×). "
        "Measure longer, or with less else running."
    )
    assert status(record) == ("part", "? unclear")
    assert "? unclear 1.36× (0.32–9.06)" in page(table.html(record, record.candidates)).text


@pytest.mark.parametrize(
    ("rounds", "speedup", "words"),
    [
        (3, Speedup(0.29, 0.28, 0.31, 3), "onnxrt measured 0.28–0.31×. 3 rounds are too few"),
        (1, Speedup(1.0, 1.0, 1.0, 1), "onnxrt measured 1.00–1.00×. 1 round is too few"),
    ],
)
def test_too_few_rounds_are_said_to_be_too_few(compared, page, rounds, speedup, words):
    record = compared["none"]
    short = dataclasses.replace(record.candidates[1], speedup=speedup)
    record = dataclasses.replace(record, candidates=(record.candidates[0], short), rounds=rounds)
    said = headline(record)
    assert said.startswith("No backend was found to be faster than eager: ")
    assert said.endswith(f"{words} to tell: ask for 6 or more, better 20.")
    assert status(record) == ("part", "? unclear")
    assert "? unclear" in page(table.html(record, record.candidates)).text
    assert f"ask for {FEWEST_ROUNDS} or more, better {race.USUAL_ROUNDS}" in said


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"interrupted": True, "partial": True, "rounds": 12}, "interrupted after 12 rounds."),
        ({"interrupted": True, "partial": True, "rounds": 0}, "interrupted before any round."),
        ({"partial": True, "rounds": 7}, "the budget of 30.0 s ended after 7 rounds."),
    ],
)
def test_a_partial_comparison_says_so_first(compared, changes, words):
    record = dataclasses.replace(compared["full"], **changes)
    assert headline(record).startswith(f"Partial: {words}")
    assert status(record)[0] == "part"


def test_nothing_measured_and_nothing_listed(compared):
    assert headline(compared["failed"]).startswith("No backend could be compared: tensorrt is not")
    assert status(compared["failed"])[1] == "✗ nothing to compare"
    alone = dataclasses.replace(compared["full"], candidates=compared["full"].candidates[:1])
    assert headline(alone) == "There is nothing to compare eager with."


def test_results_that_were_not_compared_are_not_called_right(compared):
    bare = tuple(dataclasses.replace(each, accuracy=()) for each in compared["full"].candidates)
    said = headline(dataclasses.replace(compared["full"], candidates=bare))
    assert "and right" not in said
    assert "its results were not compared" in said


@pytest.mark.parametrize(
    ("name", "word", "speedup"),
    [
        ("eager", "● baseline", "1×"),
        ("openvino", "▲ faster", "1.87× (1.81–1.93)"),
        ("ts", "▼ slower", "0.35× (0.34–0.36)"),
        ("onnxrt", "≈ same", "1.00× (0.97–1.03)"),
        ("lazy", "○ ran eagerly", "ran eagerly"),
        ("tvm", "✗ wrong", "not compared"),
        ("xla", "✗ failed", None),
        ("tensorrt", "✗ unavailable", None),
        ("nvfuser", "– not measured", None),
    ],
)
def test_every_verdict_is_a_sign_and_a_word(compared, page, name, word, speedup):
    record = compared["full"]
    made = table.html(record, [each for each in record.candidates if each.name == name])
    read = page(made).text
    assert word in read
    if speedup:
        assert f"{word} {speedup} " in read
    assert "0.98×" not in read, "what ran eagerly has no speedup"


def test_a_row_that_failed_says_why_and_the_remedy(compared, page):
    read = page(body(static.html(compared["full"]))).text
    assert "torch_tensorrt is not installed. → pip install torch-tensorrt" in read
    assert "y: 12 of 4,096 elements differ." in read
    assert "→ Use a smaller batch." in read
    assert "Stopped before its turn." in read


def test_html_reads_without_style_svg_and_script(a_comparison, page):
    made = static.html(a_comparison)
    read = page(body(STRIPPED.sub("", made)))
    assert "Candidate" in read.text
    assert a_comparison.baseline.split("<")[0] in read.text
    assert not {"script", "svg", "iframe"} & {tag for tag, _ in page(body(made)).tags}
    assert not read.ids
    assert not [n for _, attributes in read.tags for n in attributes if n.startswith("on")]


def test_the_static_chart_is_an_image_with_words(compared):
    [tag] = re.findall(r"<img [^>]*>", static.html(compared["full"]))
    assert 'src="data:image/png;base64,iVBOR' in tag
    assert 'alt="Speedup over the baseline, with its interval: openvino 1.87×, interval 1.81' in tag


def test_tables_are_named_reachable_and_have_headers_for_rows(compared, page):
    read = page(table.html(compared["full"], compared["full"].candidates))
    [region] = [a for tag, a in read.tags if tag == "div" and "role" in a]
    assert region["tabindex"] == "0"
    assert region["role"] == "region"
    scopes = [a["scope"] for tag, a in read.tags if tag == "th"]
    assert scopes.count("row") == len(compared["full"].candidates)
    # All but "Precision" and "Of limit", of which these rows have none.
    assert scopes.count("col") == len(columns.GROUPS["Overview"]) - 2


def test_user_text_stays_text(compared, page, rude):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        record = compared["rude"]
        read = page(body(static.html(record)))
        assert rude in read.text
        assert "script" not in {tag for tag, _ in read.tags}
        assert not [n for _, attributes in read.tags for n in attributes if n.startswith("on")]
        whole = static.page(record)
    assert "<script>alert" not in whole
    assert whole.count("</script>") == 2, "the page's own two"


def test_text_fits_a_terminal(a_comparison):
    made = static.text(a_comparison)
    assert max(map(len, made.split("\n"))) <= plain_text.WIDTH
    assert "<table" not in made


def test_text_says_how_it_was_measured_and_what_to_know(compared):
    made = " ".join(static.text(compared["full"]).split())
    assert "! The generator `loader` cannot be put back between runs." in made
    assert "40 rounds interleaved in random order (seed 0); times are medians, speedups" in made
    assert (
        "the medians of ratios within a round, so the two may differ; 95% interval of the sign test"
        in made
    )
    assert "cpu · 2 threads · torch 2.13.0" in closing(compared["full"])
    assert "Mix of the fastest (openvino for g0; eager for g1): the graphs' gains promise" in made


@pytest.mark.parametrize("kind", KINDS)
def test_a_chart_is_named_and_takes_the_themes_colours(compared, kind):
    record = compared["full"]
    made = Chart(record, record.candidates, kind).svg()
    assert '<svg role="img" aria-label="' in made
    assert "var(--jp-ui-font-color1, currentColor)" in made
    assert "#010203" not in made
    assert "<metadata" not in made
    assert "<style" not in made
    ids = re.findall(r'\bid="([^"]+)"', made)
    assert len(ids) == len(set(ids))
    targets = re.findall(r'url\(#([^)]+)\)|href="#([^"]+)"', made)
    assert {a or b for a, b in targets} <= set(ids)


def test_charts_share_no_id(compared):
    found = [
        set(re.findall(r'\bid="([^"]+)"', Chart(record, record.candidates, "Samples").svg()))
        for record in (compared["full"], compared["none"])
    ]
    assert found[0]
    assert not found[0] & found[1]


def test_a_chart_draws_what_counts_alone(compared):
    record = compared["full"]
    shown = [each.name for each in Chart(record, record.candidates, "Speedup").rows]
    assert shown == ["inductor", "openvino", "onnxrt", "ts"]
    assert "nothing to draw" in Chart(record, (), "Speedup").svg()


def test_a_front_end_without_ipython_gets_html(compared):
    assert ComparisonResult(compared["full"])._repr_html_() == static.html(compared["full"])


@pytest.mark.parametrize("kind", KINDS)
def test_a_plot_is_in_the_style_of_the_user(compared, kind):
    result = ComparisonResult(compared["full"])
    with style.context("dark_background"):
        axes = result.plot(kind, Figure().add_subplot())
    # Its words are white there, and never our own grey.
    assert {text.get_color() for text in axes.texts} <= {"white"}
    assert axes.get_xlabel()
    names = [label.get_text() for label in (*axes.get_yticklabels(), *axes.texts)]
    assert any(name.startswith("openvino") for name in names)


def test_a_plot_that_cannot_be_made_is_a_sentence(compared):
    with pytest.raises(OptionError, match=r"no chart 'Speed'\. Use Speedup, Samples"):
        ComparisonResult(compared["full"]).plot("Speed")
    with pytest.raises(OptionError, match="nothing to draw"):
        ComparisonResult(dataclasses.replace(compared["none"], candidates=())).plot()


def test_without_matplotlib_the_table_stands(compared, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    made = static.html(compared["full"])
    assert "pip install matplotlib" in made
    assert "<img" not in made


def test_a_page_needs_no_network_and_sorts(compared):
    made = static.page(compared["full"])
    assert made.startswith("<!doctype html>")
    assert not re.findall(r"""(?:src|href)=["'](?:https?:)?//""", made)
    assert 'lang="en"' in made
    data = re.search(r'id="dx-order">(.*?)</script>', made).group(1)
    order = json.loads(data)
    assert order["Median"]["up"][:2] == ["tvm", "openvino"]
    assert set(order) == set(columns.SORTS)


def test_sorting_puts_rows_without_a_value_last(compared):
    record = compared["full"]
    for column in columns.SORTS:
        for reverse in (False, True):
            found = columns.ordered(record, column, reverse=reverse)
            assert len(found) == len(record.candidates)
    up = columns.ordered(record, "Speedup")
    down = columns.ordered(record, "Speedup", reverse=True)
    assert [each.name for each in up[:2]] == ["ts", "eager"]
    assert down[0].name == "openvino"
    assert up[5:] == down[5:]


def test_graph_matrix_marks_the_fastest_and_sums_what_is_whole(compared, page):
    read = page(body(static.html(compared["full"]))).text
    assert "★ 50.0 µs 2.00×" in read
    assert "✗ wrong" in read
    assert "One run 12 3" in read
    assert "✗ The sum of the wins does not hold. openvino alone is faster (1.87×)." in read
    assert "def forward(self, x): ..." in read


def test_a_result_uses_these_forms(compared, tmp_path):
    result = ComparisonResult(compared["full"])
    assert repr(result) == static.text(compared["full"])
    assert result.save(tmp_path / "c.html").read_text(encoding="utf-8").startswith("<!doctype")
    again = Comparison.from_dict(json.loads(result.to_json()))
    assert static.text(again) == repr(result)


@pytest.mark.parametrize(
    ("value", "words"), [(0.0433, "0.043×"), (0.5, "0.50×"), (12.34, "12.3×"), (1234.5, "1,234×")]
)
def test_ratios_have_three_digits(value, words):
    assert ratio(value) == words


@pytest.mark.parametrize(
    ("value", "words"),
    [(12, "12 B"), (4096, "4.0 KiB"), (1.5 * 2**20, "1.5 MiB"), (3 * 2**30, "3.0 GiB")],
)
def test_sizes_have_units(value, words):
    assert number_text.size(value) == words


def test_a_busy_machine_has_no_winner(compared):
    record = dataclasses.replace(compared["full"], busy_cores=1.4)
    said = headline(record)
    assert said.startswith("No verdict: other programs kept 1.4 cores busy meanwhile. Measured: ")
    assert "openvino 1.87× (1.81–1.93)" in said
    assert said.endswith("Compare again when it is idle.")
    assert "pays off" not in said
    assert status(record) == ("part", "? no verdict")
    measured = [c for c in record.candidates[1:] if c.outcome == "measured"]
    assert {record.verdict(each) for each in measured} == {"unclear"}
    assert status(dataclasses.replace(record, busy_cores=0.3)) == ("good", "▲ faster")


def test_a_first_call_that_is_faster_than_later_ones_is_a_contradiction(compared):
    record = compared["full"]
    eager = dataclasses.replace(record.candidates[0], first_call_seconds=0.002)
    record = dataclasses.replace(record, candidates=(eager, *record.candidates[1:]))
    assert headline(record).startswith(
        "No verdict: the first call of eager took 2.00 ms and later ones 4.20 ms, so that something "
        "slowed the machine down."
    )
    assert status(record) == ("part", "? no verdict")
