"""Our other notebooks, executed, and what they must show whatever the machine's speed."""

from __future__ import annotations

import re

import pytest

from tests.notebooks.executed import NOTEBOOKS, script, texts

SHOWN = {
    "autotuning": {
        "contests": (r"(?:g\d: \w+ won.*){2}",),
        "summary": ("^first 2 graphs, 0 races remembered",),
        "cache": ("remembered",),
    },
    "comparing_backends": {
        "first": ("eager", "inductor", "onnxrt", "openvino", "ofi"),
        "harmless": (r"^\[\]$",),
        "half-distance": ("weights are torch.float32", "eager bfloat16", "eager float32"),
        "mix": (r"choice: \{'g0': '\w+', 'g1': '\w+'\}",),
        "summary": (r"trouble: \d+ rounds; careless wrong, crashes failed",),
        "isolated": ("exited by itself",),
    },
    "graph_breaks_and_guards": {
        "first": (
            "because it prints",
            r"if lengths\.min\(\)\.item\(\) == 0",
            "NumPy",
            "its `if` asks",
        ),
        "second-diff": (r"− `?if lengths\.min\(\)\.item\(\) == 0",),
        "third": ("1 graph of",),
        "thresholds-advice": ("3 recompiles came from the float",),
        "tensors": ("^compiled 1 graph for 4 thresholds$",),
        "sizes": ("^compiled 1 graph for 4 sizes$",),
    },
    "precision": {
        "machine": (r"products of matrices: float32 [\d.]+ [GT]FLOP/s",),
        "compare": ("onnxrt", "openvino", "eager:bf16", "onnxrt:int8"),
        # On a busy machine the budget ends before the last row.
        "summary": (
            "float64, on 4 other inputs",
            "auto chose: ",
            r"dtype of the results: torch\.float32",
        ),
    },
    "speeding_up": {
        "first": ("Gain ", "Cost ", "Next ", r'`torch\.compile\(model, backend="dx_onnxrt"\)`'),
        "dynamic": ("Gain ", "Cost ", "Next "),
        "again": ("Gain ", "Cost ", "Next ", "Nothing was compiled in this run"),
        "generate-again": ("Gain ", "Cost ", "Next ", "Nothing was compiled in this run"),
        "precision": ("onnxrt:int8",),
    },
    "training": {
        "usual": ("step 40:",),
        "inside": ("`train` ran as plain Python", "put the loop's body into a function"),
        "partitions": ("60 calls", r"forward\S* onnxrt \d+", r"backward\S* onnxrt \d+"),
        "untouched": ("^weights untouched: True$",),
    },
    "tuning_tvm": {"compare": ("tvm_meta_schedule",)},
    "writing_a_backend": {
        "first-check": ("numpy.*numpy", r"The toy has no kernel for it\."),
        "first-run": ("partly eager",),
        "freeze-check": ("graphs compiled: 0$",),
        "described": ("numpy ✓ yes",),
        "whole-check": ("^9 of 9 operations in 1 partition$",),
        "wrong-check": (r"verify: Output 0: .* values are off",),
        "raise-run": (r"run: MemoryError: out of imaginary memory \(calls: 1\)",),
        "stay-run": (r"No time for training\.",),
        "training": (r"forward_0 numpy \d+", r"backward_0 numpy \d+"),
        "missing": (r"aten\.where\.self",),
        "compile": ("^torch.compile agrees with eager: True$",),
    },
}
"""By notebook and cell, what is to be found in what it printed and displayed."""

NOT_SHOWN = {
    "autotuning": ("contests", r"\b(?:wrong|failed)\b"),
    "comparing_backends": ("summary", r"^(?:(?!half).)*wrong"),
    "graph_breaks_and_guards": ("second", "because it prints"),
    "speeding_up": ("precision", "wrong"),
    "training": ("compare", "wrong"),
    "tuning_tvm": ("compare", "wrong"),
}

ERRORS = (
    ("autotuning", "right", r"eager: (\S+)", 1, 1e-4),
    ("graph_breaks_and_guards", "right", r"difference: (\S+)", 1, 1e-6),
    ("training", "same", r"60 steps: (\S+)", 1, 1e-4),
    ("training", "gradients", r"(?:weight|bias) (\S+)", 6, 1e-5),
    ("tuning_tvm", "right", r"eager: (\S+)", 3, 1e-4),
    *(
        ("writing_a_backend", cell, r"largest difference .*?: (\S+?)(?:;|\s|$)", 1, 1e-5)
        for cell in ("first-check", "freeze-check", "wrong-check", "raise-run", "training")
    ),
)


@pytest.mark.parametrize("name", SHOWN)
def test_each_cell_shows_what_its_text_says(name):
    text = texts(name)
    for cell, patterns in SHOWN[name].items():
        for pattern in patterns:
            assert re.search(pattern, text(cell)), (cell, pattern)
    if name in NOT_SHOWN:
        cell, pattern = NOT_SHOWN[name]
        assert not re.search(pattern, text(cell)), cell


@pytest.mark.parametrize(("name", "cell", "pattern", "count", "most"), ERRORS)
def test_results_are_eagers(name, cell, pattern, count, most):
    found = [float(each) for each in re.findall(pattern, texts(name)(cell))]
    assert len(found) == count
    assert max(found) < most


def test_every_candidate_raced_and_the_second_time_it_is_known():
    text = texts("autotuning")
    for name in ("eager", "inductor", "onnxrt", "openvino", "ts"):
        raced = rf"(?<!: )\b{name} (?:won|slower|same|eager)"
        assert len(re.findall(raced, text("contests"))) == 2
    # Another test may keep the other core busy while one runs.
    least = 0 if "the race is not remembered" in text("race") else 1
    again = re.search(r"again 2 graphs, (\d) races? remembered", text("summary"))
    assert least <= int(again[1]) <= 2


def test_breaks_become_fewer_from_step_to_step():
    rows = re.findall(r"(\w+) (\d+) (\d+) \d+ ", texts("graph_breaks_and_guards")("summary"))
    graphs = {name: int(count) for name, count, _ in rows}
    assert graphs["found"] > graphs["checked"] > graphs["whole"] == 1
    assert {name: int(count) for name, _, count in rows}["whole"] == 0


def test_lower_precisions_cost_little_and_answer_alike():
    text = texts("precision")
    rows = dict(re.findall(r"(\S+): measured, [\d.]+, cosine ([\d.]+)", text("summary")))
    # On a busy machine the comparison may end before all rows are measured.
    assert rows
    assert 0.99 < float(rows.get("onnxrt:int8", 0.999)) < 1
    assert 0.999 < float(rows.get("eager:bf16", 0.9999)) < 1
    answers = re.findall(r": ([^()]+) \(in float32: ([^()]+)\)", text("answers"))
    assert len(answers) == 2
    assert all(mine.strip() == plain.strip() for mine, plain in answers)


def test_it_is_the_same_training():
    text, steps = texts("training"), re.compile(r"step +\d+: \d\.\d\d")
    assert steps.findall(text("usual")) == steps.findall(text("compiled"))[:3]
    losses = re.search(r"loss: (\S+) at first, (\S+) at last", text("same")).groups()
    assert float(losses[1]) < 0.8 * float(losses[0])


def test_what_a_search_found_is_kept():
    shown = texts("tuning_tvm")("summary")
    seconds = dict(re.findall(r"(\w+) \d+ of \d+ operations in TVM, (\S+) s", shown))
    assert set(seconds) == {"rule", "search", "kept"}
    assert float(seconds["kept"]) < float(seconds["search"])


def test_a_backend_takes_about_twenty_lines_and_fails_as_said():
    notebook = script().nbformat.read(NOTEBOOKS / "writing_a_backend.ipynb", as_version=4)
    [source] = [cell.source for cell in notebook.cells if cell.id == "backend"]
    body = source.partition("class NumPyBackend")[2]
    assert len([line for line in body.splitlines() if line.strip()]) <= 25
    shown = texts("writing_a_backend")("summary").partition("fallbacks")[2]
    rows = re.findall(r"(\w+) (\d+) \d+ (none|[a-z]+)", shown)
    assert {name: stage for name, _, stage in rows} == {
        "first": "unsupported",
        "whole": "none",
        "wrong": "verify",
        "raised": "run",
        "stayed": "unsupported",
        "trained": "unsupported",
    }
    assert {name: int(inside) for name, inside, _ in rows}["wrong"] == 0
