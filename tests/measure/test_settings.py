"""The options of a comparison, each said once: as values, as text, and on a command line."""

from __future__ import annotations

import argparse
import inspect
import math

import pytest

import dynamo_ext
from dynamo_ext.measure.settings import OPTIONS, Settings, add_options


@pytest.mark.parametrize("given", [None, "none", " None "])
def test_no_limit_of_compiling(given: object) -> None:
    assert Settings.of(None, (), first_run=given).compiling == math.inf


def test_a_line_without_options_is_the_defaults() -> None:
    parser = argparse.ArgumentParser()
    add_options(parser)
    assert Settings.of(None, (), **vars(parser.parse_args([]))) == Settings()
    line = ["-n", "8", "--first-run", "20", "--per-graph", "--dtype", "float16"]
    found = Settings.of(None, (), **vars(parser.parse_args(line)))
    assert (found.rounds, found.first_run, found.dtype) == (8, 20.0, "float16")
    assert found.per_graph


def test_the_function_has_each_with_the_same_default() -> None:
    parameters = inspect.signature(dynamo_ext.compare).parameters
    assert {each.name: each.default for each in OPTIONS} == {
        each.name: parameters[each.name].default or each.default for each in OPTIONS
    }
