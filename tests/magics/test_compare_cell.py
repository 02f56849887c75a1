"""``%%dynamo compare`` in a notebook: what it measures, and that it leaves nothing behind."""

from __future__ import annotations

import io
import logging
from typing import TYPE_CHECKING

import pytest
import torch

from dynamo_ext.api.compare import ComparisonResult
from dynamo_ext.backends import registry
from tests.capture.live import Live

if TYPE_CHECKING:
    from pathlib import Path

NOTEBOOK = """
import random, numpy as np
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
x = torch.randn(8, 4)
history = []
scale = 2.0

def f(v):
    return v * scale
"""
QUIET = "-n 6 --quiet -o r"


def names(cells: Live) -> dict[str, int]:
    skip = {"r", "In", "Out", "_", "__", "___", "_i", "_ii", "_iii", "_dh", "_oh", "_ih"}
    return {n: id(v) for n, v in cells.names.items() if n not in skip and not n.startswith("_i")}


def test_each_backend_gets_a_row_and_the_cells_names_are_not_kept(cells: Live) -> None:
    before = names(cells)
    cells.well(f"%%dynamo compare -b aot_eager,tensorrt {QUIET}\ny = f(x)\nprint(y)\ny.sum()")
    assert names(cells) == before
    result = cells.names["r"]
    assert isinstance(result, ComparisonResult)
    assert [row.name for row in result.record.candidates] == ["eager", "aot_eager", "tensorrt"]
    assert result["aot_eager"].timing is not None
    assert result["aot_eager"].accuracy[0].within
    # y and the displayed sum.
    assert result["aot_eager"].accuracy[0].outputs == 2
    assert result["tensorrt"].outcome == "unavailable"
    assert result.record.cell is not None


def test_functions_see_what_the_cell_assigned(cells: Live) -> None:
    cells.well(f"%%dynamo compare -b aot_eager {QUIET}\nscale = 10.0\ny = f(x)")
    assert cells.names["r"]["aot_eager"].accuracy[0].within
    assert cells.names["scale"] == 2.0


def test_a_training_cell_leaves_no_trace(cells: Live) -> None:
    cells.well("earlier = net(x).square().sum()")
    net = cells.names["net"]
    before = {k: v.clone() for k, v in net.state_dict().items()}
    random = torch.get_rng_state()
    ran = cells.well(
        f"%%dynamo compare -b aot_eager {QUIET}\n"
        "for _ in range(2):\n"
        "    optimizer.zero_grad()\n"
        "    loss = net(x + torch.rand(1)).square().mean()\n"
        "    loss.backward()\n"
        "    optimizer.step()\n"
        "    history.append(loss.item())\n"
        "    print(loss)\n"
        "np.random.rand(), random.random()"
    )
    assert (ran.out, ran.outputs) == ("", [])
    assert all(torch.equal(net.state_dict()[k], v) for k, v in before.items())
    assert cells.names["history"] == []
    assert not cells.names["optimizer"].state
    assert all(p.grad is None for p in net.parameters())
    assert torch.equal(torch.get_rng_state(), random)
    assert "loss" not in cells.names
    cells.well("earlier.backward()")


def test_the_cells_own_error_is_shown_as_a_plain_cells(cells: Live) -> None:
    ran = cells.run(f"%%dynamo compare -b aot_eager {QUIET}\ny = x + 1\n1 / 0")
    assert isinstance(ran.error, ZeroDivisionError)
    assert "dynamo_ext" not in ran.shown
    assert "y" not in cells.names


def test_a_backend_of_the_users_own_is_a_variable(cells: Live) -> None:
    cells.well("def mine(graph, inputs):\n    return graph.forward")
    cells.well(f"%%dynamo compare -b mine,aot_eager {QUIET}\ny = f(x)")
    assert cells.names["r"]["mine"].timing is not None


def test_without_candidates_those_that_auto_races_are_compared(cells: Live, monkeypatch) -> None:
    monkeypatch.setattr(registry, "racing", lambda: ("ts", "tensorrt"))
    cells.well(f"%%dynamo compare {QUIET}\ny = f(x)")
    assert [row.name for row in cells.names["r"].record.candidates] == ["eager", "ts"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("-b aot_eager --rounds 0", "'rounds' cannot be '0'. Give it 1 or more"),
        ("-b aot_eager --budget inf", "'budget' cannot be 'inf'. Give it 0.01 or more, and finite"),
        ("-b aot_eager --budget=-inf", "'budget' cannot be '-inf'"),
        ("-b aot_eager --first-run soon", "a value of type float, or none"),
        ("-b auto --opt budget=inf", "'budget' cannot be 'inf'. Give it 0 or more, and finite"),
        ("-b aot_eager -n zero", "'rounds' cannot be 'zero'. Give it a value of type int"),
        ("-b aot_eager -n 1.5", "'rounds' cannot be '1.5'"),
        ("-b aot_eager --baseline ts", "baseline"),
        ("-b aot_eager -o 1x", "1x"),
        ("-b aot_eager -o net", "net"),
        ("-b aot_eager --opt threads=1", "threads"),
    ],
)
def test_bad_lines_are_one_sentence(cells: Live, line: str, words: str) -> None:
    ran = cells.run(f"%%dynamo compare {line}\ny = x + 1")
    assert type(ran.error).__name__ == "UsageError"
    assert words in str(ran.error)
    assert "y" not in cells.names


def test_help_lists_the_flags(cells: Live) -> None:
    ran = cells.well("%%dynamo compare -h\nx")
    assert "--fp64" in ran.out
    assert "--isolate" in ran.out
    assert "\n  %%dynamo compare [-b" in ran.out
    assert "::" not in ran.out


def test_the_line_magic_says_that_it_needs_a_cell(cells: Live) -> None:
    ran = cells.run("%dynamo compare -b aot_eager")
    assert "needs a cell" in str(ran.error)


def test_the_same_cell_runs_as_before_afterwards(cells: Live) -> None:
    cells.well("%%dynamo -b eager --quiet\ny = f(x)")
    cells.well(f"%%dynamo compare -b aot_eager {QUIET}\ny = f(x)")
    cells.well("%%dynamo -b eager --quiet -o again\ny = f(x)")
    assert not [graph for graph in cells.names["again"].graphs if graph.compiled_now]


@pytest.mark.parametrize(
    "code", ["y = x + random.random()", "y = x + np.random.rand()", "y = counted(x)"]
)
def test_code_that_compiles_anew_while_it_is_timed_is_compared(cells: Live, code: str) -> None:
    cells.well("def counted(t):\n    counted.n = getattr(counted, 'n', 0) + 1\n    return t * 2")
    before = names(cells)
    logged = io.StringIO()
    heard = logging.StreamHandler(logged)
    logger = logging.getLogger("torch._dynamo")
    logger.addHandler(heard)
    try:
        cells.well(f"%%dynamo compare -b aot_eager,ts {QUIET}\n{code}")
    finally:
        logger.removeHandler(heard)
    assert logged.getvalue() == ""
    assert names(cells) == before
    assert [row.outcome for row in cells.names["r"].record.candidates] == ["measured"] * 3


def test_precisions_are_candidates_of_one_comparison(cells: Live) -> None:
    cells.well(f"%%dynamo compare -b eager:bf16,aot_eager {QUIET}\ny = net[0](x)")
    record = cells.names["r"].record
    rows = {row.name: row for row in record.candidates}
    assert [(name, row.precision) for name, row in rows.items()] == [
        ("eager", ""),
        ("eager:bf16", "bf16"),
        ("aot_eager", "float32"),
    ]
    lowered, full = rows["eager:bf16"], rows["aot_eager"]
    assert (lowered.outcome, lowered.in_engine) == ("measured", 1)
    [accuracy] = lowered.accuracy
    assert (accuracy.reference, accuracy.bound, accuracy.within) == ("float64", 0.05, True)
    assert 30 < accuracy.sqnr < 80
    assert full.accuracy[0].sqnr > 100
    assert full.accuracy[0].reference == "eager"


def test_one_precision_for_all_that_have_it(cells: Live) -> None:
    cells.well(f"%%dynamo compare -b eager,ofi --precision bf16 {QUIET}\ny = net[0](x)")
    record = cells.names["r"].record
    assert [row.precision for row in record.candidates] == ["", "bf16", "float32"]


CHECKED = "-b onnxrt:int8 --accuracy top1>=0.5"


def test_a_bound_is_checked_on_a_list_of_the_users(cells: Live) -> None:
    cells.well("net.eval()\nbatches = [torch.randn(50, 4), torch.randn(30, 4)]")
    before = names(cells)
    cells.well(f"%%dynamo compare {CHECKED} --check-on x=batches {QUIET}\ny = net(x)")
    row = cells.names["r"]["onnxrt:int8"]
    assert row.accuracy[1].reference == "float64, on 2 other inputs"
    assert row.outcome in {"measured", "eager"}
    assert names(cells) == before


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("-b onnxrt:int8 --metric near", "--metric needs a bound. Add --accuracy"),
        ("-b onnxrt --check-on x=batches", "Other inputs calibrate int8, or have a bound"),
        (f"{CHECKED} --metric near", "--metric near is not a function of yours."),
        (f"{CHECKED} --check-on x=nothing", "is not a name of yours with a list of values"),
        (f"{CHECKED} --check-on scale=sizes", "The cell does not read scale"),
        ("-b onnxrt:int8 --accuracy metric>=1", "metric is a function of yours"),
        ("-b onnxrt:int8 --accuracy top1", "'top1' is not a bound of accuracy."),
        (
            "-b onnxrt:int8 --accuracy metric>=1 --metric bad",
            "The metric bad raised KeyError: 'gone'",
        ),
    ],
)
def test_a_bound_that_cannot_be_checked_is_one_sentence(cells: Live, line: str, said: str) -> None:
    cells.well(
        "sizes = [1.0]\nbatches = [x]\ndef bad(found, exact):\n    raise KeyError('gone')\nnet.eval()"
    )
    before = names(cells)
    ran, _ = cells.failed(f"%%dynamo compare {line} --quiet\ny = net(x)")
    assert said in str(ran.error)
    assert names(cells) == before


def test_each_command_that_is_offered_for_a_cell_that_writes_works(
    cells: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = names(cells)
    # With an option of each kind: what is offered has them all.
    line = f"compare -b aot_eager,ts --baseline ts --opt ts.verify=False {QUIET}"
    body = "y = net(x)\nfor _ in range(2):\n    optimizer.step()\ntorch.save(y, 'out.pt')"
    ran = cells.run(f"%%dynamo {line}\n{body}")
    assert type(ran.error).__name__ == "UsageError"
    said = str(ran.error)
    assert f"writes {tmp_path / 'out.pt'}, and" in said
    offered = [text.strip() for text in said.splitlines() if text.startswith("    %%dynamo")]
    assert offered == [f"%%dynamo {line} --allow-writes", f"%%dynamo {line} --per-graph"]
    assert names(cells) == before
    for command in offered:
        cells.well(f"{command}\n{body}")
        record = cells.names["r"].record
        assert any("out.pt" in note for note in record.notes)
        assert bool(record.graphs) == ("--per-graph" in command)
        assert (record.candidates[0].timing is None) == ("--per-graph" in command)
        assert names(cells) == before


def test_what_is_shown_on_the_screen_is_no_effect(cells: Live) -> None:
    pytest.importorskip("matplotlib").use("Agg")
    cells.well("import matplotlib.pyplot as plt, sys, logging")
    cells.well(
        f"%%dynamo compare -b aot_eager {QUIET}\n"
        "y = f(x)\nprint(y)\nsys.stderr.write('a')\nlogging.warning('a')\n"
        "display(y)\nplt.plot(y.tolist())\nplt.show()"
    )
    assert cells.names["r"]["aot_eager"].timing is not None
