"""First and later runs: one cell for real, what is compared, and the page."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from benchmarks.first_run import __main__ as command
from benchmarks.first_run import table
from benchmarks.first_run.namespace import Namespace, Ran
from benchmarks.first_run.row import Facts, First, Later, Row
from benchmarks.first_run.same import Judge, bound, printed_difference, values
from tests.magics.shell import notebook

NAME = "cosine 10 turns"
FACTS = Facts(
    1.0,
    0.9,
    0.0,
    0.5,
    3,
    30,
    1,
    0.25,
    ("run: No room.", "lower: a|b."),
    "It ran.",
    ("A loop is Python.",),
)


def row(backend: str, first: float, plain: float, tenth: float, difference: str = "") -> Row:
    later = Later(0.2, plain, tenth, FACTS)
    return Row(backend, NAME, plain, First(first, difference, FACTS), later)


def test_the_page() -> None:
    rows = [
        row("eager", 4.05, 0.1, 0.05, "y: 1 of 3 values are off."),
        row("auto", 41.0, 0.1, 0.2),
        Row("onnxrt", NAME, 0.02, error="first run: It had no result after 60 s."),
    ]
    page = table.page(rows, "Measured with: a machine.")
    assert "- 2 of 3 first runs were over the budget." in page
    assert "- 2 of 3 missed the rule for later runs." in page
    assert "later runs take 2.00 times as long as the plain cell: the geometric mean over" in page
    assert "- 1 of 3 results differ." in page
    assert f"| {NAME} | `auto` | 41.00 | 40.1 | 0.10 |  |" in page
    assert f"| {NAME} | `auto` | 100.0 | 200.0 | 2.00 |  |" in page
    assert f"| {NAME} | `eager` | y: 1 of 3 values are off. |" in page
    assert f"| {NAME} | 100.0 | 4.05 | 0.20 | 50.0 | 0.50 | 25% | 3 | differs: y: " in page
    unfinished = f"| {NAME} | 20.0 | – | – | – | – | – | – | first run: It had no result after 60 s"
    assert unfinished in page
    assert "run: No room. lower: a\\|b" in page
    assert f"- {NAME}, `auto`: It ran. A loop is Python." in page
    assert "Measured with: a machine." in page
    assert Row.from_dict(rows[0].to_dict()) == rows[0]
    assert "Nothing is measured yet." in table.page([], "")


def test_budgets_and_the_rule_for_later_runs() -> None:
    assert [row(name, 20.0, 0.1, 0.1).over_budget for name in ("eager", "tvm", "auto")] == [
        True, False, False,
    ]  # fmt: skip
    assert not row("eager", 4.09, 0.1, 0.1).over_budget
    slow = [Later(0, plain, tenth).keeps_the_rule for plain, tenth in ((1, 1.09), (1, 1.11))]
    assert slow == [True, False]
    assert Later(0, 0.01, 0.039).keeps_the_rule
    assert not Later(0, 0.01, 0.01, error="KeyError").keeps_the_rule


def test_values_of_two_namespaces_are_compared_whatever_they_are() -> None:
    judge = Judge(None, "", "")
    plain = {"a": [torch.ones(3), 1.0], "n": 2, "s": "x", "d": {(1, 2): 0.5}}
    same = {"a": [torch.ones(3) + 1e-6, 1.0 + 1e-6], "n": 2, "s": "x", "d": {(1, 2): 0.5}}
    assert judge.difference(list(plain), plain, same) == ""
    for name, other in {
        "n": 3, "s": "y", "d": {(1, 3): 0.5}, "a": [torch.ones(3, dtype=torch.float64), 1.0],
    }.items():  # fmt: skip
        assert judge.difference([name], plain, {name: other}).startswith(f"{name}: ")
    assert judge.difference(["n"], plain, {}) == "n: it is not bound."
    assert bound({"a": 1}, {"a": 1, "b": 2, "_c": 3}) == ["b"]


def test_a_cell_in_float64_says_which_result_is_farther_off() -> None:
    setup = "import torch\ntorch.manual_seed(0)\nw = torch.ones(3, requires_grad=True)"
    setup += "\nopt = torch.optim.SGD([w], 0.1)"
    cell = "loss = (w * 1.1).pow(2).sum(); loss.backward(); opt.step(); y = w.detach() * 1"
    with notebook() as shell:
        judge = Judge(shell, setup, cell)
        plain = Namespace(shell)
        plain.must_run(setup)
        plain.must_run(cell)
        exact = judge._wide["y"]
        assert exact.dtype is torch.float64
        assert torch.get_default_dtype() is torch.float32
        assert torch.allclose(plain.names["y"].double(), exact)
        off = {"y": exact.float()}
        noisy = {"y": exact.float() * 1.01}
        assert judge.difference(["y"], noisy, off) == ""
        assert "values are off" in judge.difference(["y"], off, noisy)
    assert values([1.0], torch.float64)[-1].dtype is torch.float64


def test_namespaces_do_not_see_one_another() -> None:
    with notebook() as shell:
        one, two = Namespace(shell), Namespace(shell)
        for space in (one, two):
            space.must_run("import torch; torch.manual_seed(0)\ndef f(): return x\nx = 1")
        one.must_run("x = 2; y = torch.rand(1); seen = f()")
        printed = two.must_run("print(f()); z = torch.rand(1)").printed
        assert (one.names["seen"], printed) == (2, "1\n")
        assert torch.equal(one.names["y"], two.names["z"])
        assert "y" not in two.names
        assert two.run("1 / 0").raised == "ZeroDivisionError: division by zero"


def test_printed_numbers_may_differ_as_results_may() -> None:
    def ran(text: str) -> Ran:
        return Ran(0.0, text, None)

    assert printed_difference(ran("1 0.50001\n"), ran("1 0.50002\n")) == ""
    assert (
        printed_difference(ran("1 0.5\n"), ran("1 0.6\n")) == "Number 1: 0.6 where eager gives 0.5."
    )
    assert printed_difference(ran("a 1"), ran("b 1")) == "another text is printed."


@pytest.mark.sweep
def test_a_short_one_for_real(tmp_path: Path) -> None:
    rows, page = tmp_path / "rows.jsonl.gz", tmp_path / "page.md"
    words = ["--cells", NAME, "--backends", "eager", "--rows", str(rows), "--write", str(page)]
    assert command.main([*words, "--limit", "100"]) == 0
    assert f"| {NAME} | " in page.read_text()
    kept = rows.read_bytes()
    assert command.main(words) == 0
    assert rows.read_bytes() == kept
