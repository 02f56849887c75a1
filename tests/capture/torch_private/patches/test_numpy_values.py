"""NumPy's numbers are numbers to a graph, and its arrays stay NumPy's."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from dynamo_ext.capture.torch_private.patches import numpy_values
from tests.capture.live import counting_compiles, live
from tests.needs import captures_less

START = """import math
import numpy as np
import torch
width, n, s, scales = 16, np.int64(7), np.float32(2.5), np.array([0.5, 2.0])
x = torch.ones(3)"""

TWO_TYPES = captures_less("2.13", "ends a graph where two NumPy numbers have different types")
EQUAL = captures_less("2.13", "ends a graph at `==` of a tensor and a NumPy integer")


@pytest.mark.parametrize(
    "number",
    [
        "np.sqrt(width)",
        "1 / np.sqrt(width)",
        "-np.sqrt(width) ** 2",
        "abs(np.log(3) - n)",
        "2 ** s",
        "n // 2",
        "np.sqrt(s) % s",
        "np.maximum(n, width)",
        pytest.param("n * np.sqrt(2.0)", marks=TWO_TYPES),
        pytest.param("s / np.sqrt(2.0)", marks=TWO_TYPES),
    ],
)
def test_arithmetic_with_a_number_stays_in_the_graph(number: str) -> None:
    with live(START) as cells:
        report = cells.report(f"y = x * 2\nnumber = {number}\nz = y * number + number / y")
        assert [graph.operation_count for graph in report.graphs] == [4]
        names = cells.names
        expected = eval(number, dict(names))
        assert type(names["number"]) is type(expected)
        assert names["number"] == expected
        wanted = names["y"] * expected + expected / names["y"]
        assert wanted.dtype == names["z"].dtype
        assert wanted.equal(names["z"])


@pytest.mark.parametrize(
    "number", ["np.sqrt(2.0) > n", "n in [1, 7]", "torch.tensor(s).dtype", "np.log(0)", "s.item()"]
)
def test_what_is_not_a_known_number_is_pythons(number: str) -> None:
    with live(START) as cells:
        with np.errstate(divide="ignore"):
            cells.report(f"y = x * 2\nfound = {number}\nz = y + 1")
            expected = eval(number, dict(cells.names))
        assert type(cells.names["found"]) is type(expected)
        assert cells.names["found"] == expected


@pytest.mark.parametrize(
    "compared", ["x > s", "s >= x", pytest.param("x == n", marks=EQUAL), "np.sqrt(width) != x"]
)
def test_a_comparison_with_a_tensor_stays_in_the_graph(compared: str) -> None:
    with live(START) as cells:
        report = cells.report(f"y = x * 2\nfound = {compared}\nz = y + 1")
        assert [graph.operation_count for graph in report.graphs] == [3]
        assert cells.names["found"].equal(eval(compared, dict(cells.names)))


@pytest.mark.parametrize("indexed", ["r = y[:k]", "r = y[k:]", "y[:k] = 0", "r = y[Two():]"])
def test_an_index_of_another_value_takes_other_elements(indexed: str) -> None:
    two = "class Two:\n    def __index__(self):\n        return 2"
    with live(START, two) as cells:
        for value in (1, 2, 0):
            cells.names["k"] = np.int64(value)
            cells.report(f"y = x * 2\n{indexed}\nz = y + 1")
            names = {**cells.names, "y": cells.names["x"] * 2}
            exec(indexed, names)
            assert cells.names["z"].equal(names["y"] + 1)
            assert cells.names.get("r", names["y"]).equal(names.get("r", names["y"]))


@pytest.mark.parametrize("turned", ["float(scales[0])", "int(np.argmax(scales))"])
def test_a_number_that_numpy_computes_does_not_end_the_capture(turned: str) -> None:
    with live(START) as cells:
        report = cells.report(f"y = x * 2\nvalue = {turned}\nz = y + value\nw = z * 2")
        assert [graph.operation_count for graph in report.graphs] == [1, 2]
        assert not report.fallbacks


def test_a_number_of_another_value_has_other_results() -> None:
    with live(START) as cells:
        for value in (2.0, 4.0, -0.0, 0.0, float("nan"), 5.0):
            cells.names["s"] = np.float64(value)
            cells.report("y = 1 / (x * s)")
            wanted = 1 / (cells.names["x"] * np.float64(value))
            torch.testing.assert_close(cells.names["y"], wanted, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("legacy", [False, "1.21"])
def test_code_is_not_compiled_for_each_of_many_numbers(legacy: Any) -> None:
    counts = []
    with live(START) as cells, np.printoptions(legacy=legacy):
        for value in (0.5, 1.5, 2.5, 3.5, 4.5):
            cells.names["s"] = np.float64(value)
            with counting_compiles() as started:
                cells.report("y = x * s\nz = y + 1")
            counts.append(len(started))
            assert cells.names["z"].tolist() == [value + 1] * 3
    assert counts[3:] == [0, 0]


def test_a_function_of_the_users_is_called_each_time() -> None:
    called: list[int] = []

    def note(number: int) -> int:
        called.append(number)
        return number + 1

    with live(START) as cells:
        cells.names["note"] = np.frompyfunc(note, 1, 1)
        for _ in range(2):
            cells.report("y = x * note(2)")
    assert called == [2, 2]


@pytest.mark.parametrize("name", ["mul", "truediv", "pow", "floordiv", "lt", "ge", "eq"])
@pytest.mark.parametrize("kind", numpy_values._NUMBERS)
def test_torch_takes_a_number_for_pythons_own(kind: type, name: str) -> None:
    number, compute = kind(-3), getattr(operator, name)
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.complex64):
        tensor = torch.tensor([2, 1]).to(dtype)
        assert _outcome(compute, tensor, number) == _outcome(compute, tensor, number.item())
        assert _outcome(compute, number, tensor) == _outcome(compute, number.item(), tensor)


def _outcome(compute: Callable[..., torch.Tensor], *given: object) -> str:
    try:
        result = compute(*given)
    except (RuntimeError, TypeError) as error:
        return type(error).__name__
    return f"{result} {result.dtype}"
