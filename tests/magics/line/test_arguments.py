"""What a user may say on the line, and what is refused in one sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from IPython.core.error import UsageError

from dynamo_ext.magics.arguments import key_and_value
from tests.capture.live import Live, Ran, counting_compiles, live

if TYPE_CHECKING:
    from collections.abc import Iterator

GOOD = "y = x + 1"
COMPILED: list[str] = []


@pytest.fixture(scope="module")
def cells() -> Iterator[Live]:
    with live("x = torch.arange(3.)", "kept = 1") as found, counting_compiles(COMPILED):
        yield found


def names(cells: Live) -> dict[str, int]:
    return {name: id(value) for name, value in cells.names.items() if not name.startswith("_")}


def refused(cells: Live, text: str) -> Ran:
    """A cell that must be refused with one line, and must change nothing."""
    before, compiled = names(cells), len(COMPILED)
    ran = cells.run(text)
    assert isinstance(ran.error, UsageError), ran.error
    assert ran.err.startswith("UsageError: ")
    assert ran.err.count("\n") == 1
    assert ran.out == ""
    assert ran.outputs == []
    assert names(cells) == before
    assert len(COMPILED) == compiled
    return ran


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("-b onxrt", "Did you mean onnxrt"),
        ("-b inductr", "inductor"),
        ("-b zzzzzz", "There are: eager, inductor, onnxrt"),
        ("-b tensorrt --strict", "Use inductor, which works here. Else: pip install"),
        ("-b onnxrt --opt thread=2", "Did you mean 'threads'"),
        ("-b onnxrt --opt threads=two", "cannot be 'two'"),
        ("-b inductor --opt mode=fast", "Choose from: default"),
        ("-b eager --opt a=1", "has no option 'a'"),
        ("--opt threads", "not KEY=VALUE"),
        ("--opt =2", "not KEY=VALUE"),
        ("--dynamic --static", "contradict"),
        ("-b kept", "This int is not a backend"),
        ("-b [1,2]", "This list is not a backend"),
        ("-b kept.nope", "raises AttributeError"),
        ("-b 1/0", "raises ZeroDivisionError"),
        ("-b 'torch.zeros(2) @ torch.zeros(3)'", "raises RuntimeError"),
        ("-b \"torch.zeros('a')\"", "raises TypeError"),
        ("-o 3", "not a name"),
        ("-o class", "not a name"),
        ("-o a.b", "not a name"),
        ("-o kept", "overwrite your variable kept"),
        ("-o torch", "overwrite your variable torch"),
        ("-o y", "the cell itself assigns y"),
        ("-b tvm:bf16", "tvm cannot be given precision bf16. It can be given to eager, inductor,"),
        ("-b eager --precision bf17", "cannot be 'bf17'. Choose from: float32, bf16, fp16."),
        ("-b auto --accuracy psnr>=30", "'psnr>=30' is not a bound of accuracy. Write it as"),
        (
            "-b eager --accuracy rel<=0.1",
            "eager cannot be given accuracy rel<=0.1. It can be given to auto.",
        ),
        ("-b onnxrt --precision bf16", "onnxrt cannot be given precision bf16. It can be given to"),
        ("-b kept:bf16", "There is no backend 'kept'"),
        ("--bogus", "--bogus"),
        ("--bakend onnxrt", "--bakend is not an option. Did you mean --backend?"),
        ("--bakend=onnxrt", "--bakend is not an option. Did you mean --backend?"),
        ("-b eager --quite", "--quite is not an option. Did you mean --quiet?"),
        ("--zzz", "--zzz is not an option. There are: --backend, --dynamic"),
        ("optimise", "Did you mean optimize?"),
        ("-b eager comparre", "Did you mean compare?"),
        ("-b eager compare", "it comes first: optimize, run, compare."),
        ("zzz", "invalid choice: 'zzz'"),
        (
            "-b lambda gm, ex: gm.forward",
            'Quote an expression that has spaces, as in -b "lambda graph',
        ),
        ("-b lambda gm, ex: gm --quiet", "Quote an expression"),
        ("-b max(kept, 2)", "Quote an expression"),
        ("run --fullgraph", "--fullgraph does not go with run, which never compiles"),
        ("compare --bakends eager", "--bakends is not an option. Did you mean --backends?"),
        ("run optimize", "One mode goes on the line"),
        ("-b", "Argument -b/--backend: expected one argument."),
        ("-b --quiet", "expected one argument."),
        ("--backend=", "expected one argument."),
        ('-b ""', "expected one argument."),
        ("-b eager -o", "Argument -o/--output: expected one argument."),
        ("--profile=yes", "Argument --profile: ignored explicit argument 'yes'."),
        ("--st", "Ambiguous option: --st could match --static, --strict."),
        ("-b 'eager", "No closing quotation. Close the quotes."),
        ("-b onnxrt,inductor", "-b takes one backend here. Several are compared by %%dynamo compa"),
        ("-b onnxrt, inductor", "Several backends have no spaces: %%dynamo compare -b "),
        ("-b kept,torch", "%%dynamo compare -b kept,torch."),
        ("compare -b", "Argument -b/--backends/--backend: expected one argument."),
        ("compare -b eager --budget", "Argument --budget: expected one argument."),
        ("compare run -b eager", "Unrecognized arguments: run. One mode"),
        ("compare -b onnxrt, inductor", "Several backends have no spaces"),
        ("compare -b eager --dtype int8", "--dtype: invalid choice: 'int8' (choose from"),
        ("compare -b 'eager", "-b 'eager cannot be read: No closing quotation."),
    ],
)
def test_bad_lines_are_one_sentence(cells: Live, line: str, says: str) -> None:
    assert says in refused(cells, f"%%dynamo {line}\n{GOOD}").err


@pytest.mark.parametrize(
    "text",
    [
        "import os as r",
        "from os import path as r",
        "for r in range(2): pass",
        "with open('/dev/null') as r: pass",
        "def r(): pass",
        "class r: pass",
        "(r := 1)",
        "a, *r = 1, 2",
        "try:\n    1 / 0\nexcept ZeroDivisionError as r:\n    pass",
        "match x:\n    case r: pass",
        "match [1]:\n    case [*r]: pass",
        "r: int = 1",
        "[r := i for i in range(2)]",
        "del r",
        "def f():\n    global r\n    r = 1\nf()",
    ],
)
def test_an_output_name_that_the_cell_binds_is_refused(cells: Live, text: str) -> None:
    assert (
        "-o r: the cell itself assigns r" in refused(cells, f"%%dynamo -b eager -o r\n{text}").err
    )


def test_a_local_name_of_a_function_is_no_collision(cells: Live) -> None:
    cells.well(
        "%%dynamo -b eager -o local --quiet\ndef g():\n    local = 1\n    return local\ny = g()"
    )
    assert type(cells.names.pop("local")).__name__ == "Report"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("%%dynamo", "empty|no code"),
        ("%%dynamo\n", "empty|no code"),
        ("%%dynamo -b eager\n\n   \n", "empty|no code"),
        ("%%dynamo compare -b eager\n# only a comment", "no code"),
        ("%%dynamo\nawait x", "cannot await at top level"),
        ("%%dynamo\nasync for i in x: pass", "cannot await at top level"),
        ("%dynamo", "needs a command"),
        ("%dynamo explian x", "Did you mean explain?"),
        ("%dynamo nope", "There are: backends, explain, report, graphs, guards"),
        ("%dynamo use", "%dynamo use BACKEND"),
        ("%dynamo use nope", "no backend 'nope'"),
        ("%dynamo use onxrt", "Did you mean onnxrt"),
        ("%dynamo use kept", "This int is not a backend"),
        ("%dynamo use eager onnxrt", "%dynamo use BACKEND"),
        ("%dynamo use eager,onnxrt", "%%dynamo compare -b eager,onnxrt"),
        ("%dynamo GRAPHS", "Did you mean graphs?"),
        ("%dynamo backends nope", "no backend 'nope'"),
        ("%dynamo backends a b", "%dynamo backends"),
        ("%dynamo report now", "%dynamo report"),
        ("%dynamo reset all", "%dynamo reset"),
        ("%dynamo run", "needs a cell"),
        ("%dynamo -b eager", "needs a cell"),
        ("%%dynamo backends\ny = 1", "Write %dynamo backends on a line of its own"),
    ],
)
def test_bad_cells_and_commands_are_one_sentence(cells: Live, text: str, says: str) -> None:
    assert any(word in refused(cells, text).err for word in says.split("|"))


def test_help_is_a_command(cells: Live) -> None:
    assert cells.well("%dynamo help").out == cells.well("%dynamo --help").out


def test_a_syntax_error_is_shown_as_pythons(cells: Live) -> None:
    before = names(cells)
    ran = cells.run("%%dynamo -b eager\na = 1\nb = = 2")
    assert isinstance(ran.error, SyntaxError)
    assert "line 3" in ran.shown
    assert "b = = 2" in ran.shown
    assert "dynamo_ext" not in ran.shown
    assert names(cells) == before


def test_options_are_pairs() -> None:
    found = [key_and_value(text) for text in ("a=1", " b = 'x=y' ", "'c=3'")]
    assert found == [("a", "1"), ("b", "x=y"), ("c", "3")]
