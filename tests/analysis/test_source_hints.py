"""What one line of the user's code asks for."""

from __future__ import annotations

import pytest

from dynamo_ext.analysis.source_hints import chooses_by_reading, condition, leaves_value, reader


@pytest.mark.parametrize(
    ("code", "call"),
    [
        ('print("s", float(s))', "float()"),
        ("n = int(s)", "int()"),
        ("total += float(loss.item())", ".item()"),
        ("for k in range(int(n)):", "int()"),
        ("print(float(s),", "float()"),
        ("print(s,", ""),
        ("y = math.sqrt(s)", ""),
        ("y = np.float(s) + self.int(s)", ""),
    ],
)
def test_the_call_that_reads_is_the_one_that_is_there(code: str, call: str) -> None:
    assert reader(code) == call


@pytest.mark.parametrize(
    ("code", "chooses"),
    [
        ("if h.sum().item() > 0:", True),
        ("elif float(h) > 0:", True),
        ("while int(h) > 0:", True),
        ("return a if h.item() > 0 else b", True),
        ("if flag: n = h.item()", False),
        ("n = h.item()", False),
        ("h.item() if", False),
    ],
)
def test_a_value_that_is_read_may_decide_the_way(code: str, chooses: bool) -> None:
    assert chooses_by_reading(code) is chooses


def test_the_word_that_asks_for_a_truth_is_found() -> None:
    assert condition("elif x.sum() > 0:") == "elif"
    assert condition("y = x.any() and other") == "and"
    assert condition("y = notify(iffy)") == ""


@pytest.mark.parametrize(
    ("code", "leaves"),
    [
        ("o.zero_grad()", True),
        ("t = t * 2; time.sleep(0)", True),
        ("now = time.sleep(0)", False),
        ("print(time.sleep(0))", False),
        ("o.zero_grad(", False),
    ],
)
def test_a_call_may_be_there_for_what_it_does(code: str, leaves: bool) -> None:
    name = "time.sleep" if "sleep" in code else "Optimizer.zero_grad"
    assert leaves_value(code, name) is leaves
