"""Torch's graph-break messages, taken apart."""

from __future__ import annotations

import pytest

from dynamo_ext.capture.events.breaks import graph_break, in_users_words
from dynamo_ext.capture.torch_private.patches.registry import ABOUT_COMPILING

MESSAGE = """\
Failed to trace builtin operator
  Explanation: Dynamo does not know how to trace
    builtin operator `print`.
  Hint: Avoid calling builtin `print`.
  Hint: Please report an issue to PyTorch.
  Hint: Another way
    is this.

  Developer debug context: builtin print [<class 'TensorVariable'>] False

 For more details about this graph break, please visit: https://meta-pytorch.github.io/x/gb/gb0059.html

from user code:
   File "a.py", line 3, in f
    print(x)

Set TORCHDYNAMO_VERBOSE=1 for the internal stack trace
"""


def test_each_part_lands_in_its_field() -> None:
    found = graph_break(MESSAGE, None)
    assert found.reason == "Failed to trace builtin operator"
    assert found.explanation == "Dynamo does not know how to trace builtin operator `print`."
    assert found.hints == ("Avoid calling builtin `print`.", "Another way is this.")
    assert found.registry_id == "gb0059"
    assert found.link == "https://meta-pytorch.github.io/x/gb/gb0059.html"
    assert (found.count, found.line) == (1, None)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("just words", "just words"),
        ("", "unknown reason"),
        ("ValueError: no\n\nfrom user code:\n  File x", "ValueError: no"),
        ("two\nlines", "two lines"),
    ],
)
def test_an_unknown_layout_is_the_reason(text: str, reason: str) -> None:
    found = graph_break(text, None)
    assert found.reason == reason
    assert (found.registry_id, found.link, found.hints) == ("", "", ())


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("generic_jump TensorVariable()", "branch"),
        ("Data-dependent branching with non-constant __bool__", "branch"),
        ("Consider annotating your code. Could not guard on data", "branch"),
        ("Consider annotating your code. Could not extract a number", "number"),
        ("Uninitialized nn.Module", "module"),
        ("Anything else", ""),
    ],
)
def test_torchs_own_reason_says_of_what_kind_it_is(text: str, kind: str) -> None:
    assert graph_break(text, None).kind == kind


def test_a_break_names_what_it_is_about() -> None:
    missing = "Explanation: Failed to find name `spam`\n https://x.org/gb/gb0354.html"
    assert graph_break(f"No name\n  {missing}", None).name == "spam"
    own = f"{ABOUT_COMPILING}\n  Explanation: no\n  Developer debug context: mark_dynamic"
    found = graph_break(own, None)
    assert (found.kind, found.name) == ("about_compiling", "mark_dynamic")


def test_the_cell_is_called_the_cell() -> None:
    assert (
        in_users_words("in <ipython-input-1-ab>: no", "<ipython-input-1-ab>") == "in the cell: no"
    )
    assert in_users_words("in a.py", None) == "in a.py"


@pytest.mark.parametrize(
    ("page", "hint"),
    [
        ("gb0001", "This is likely to be a Dynamo bug. Please report an issue to PyTorch."),
        ("gb0088", "It may be possible to write Dynamo tracing rules for this code. Please …"),
    ],
)
def test_nobody_is_sent_to_pytorch_for_what_may_be_their_own_error(page: str, hint: str) -> None:
    text = MESSAGE.replace("gb0059", page).replace("Please report an issue to PyTorch.", hint)
    assert graph_break(text, None).hints == (
        "Avoid calling builtin `print`.",
        "Another way is this.",
    )


def test_a_missing_name_is_named() -> None:
    found = graph_break(
        "failed to find name in frame builtins\n"
        "  Explanation: Failed to find name `nett` in frame's builtins.\n"
        "  Hint: This is likely to be a Dynamo bug. Please report an issue to PyTorch.\n\n"
        "  Developer debug context: \n\n"
        " For more details about this graph break, please visit: https://x.io/gb/gb0354.html",
        None,
    )
    assert found.reason == "The name `nett` was not defined when Dynamo traced this code"
    assert (found.explanation, found.link, len(found.hints)) == ("", "", 1)
