from __future__ import annotations

import dataclasses

from dynamo_ext.records.capture import Frame, GraphBreak
from dynamo_ext.records.common import CodeBlock, SourceLine
from dynamo_ext.records.graph import Graph, Operation
from dynamo_ext.records.report import Fallback, Report
from dynamo_ext.widgets.report import breaks, code, fallbacks
from tests.capture.live import live


def labels(report) -> dict[int, str]:
    rows = [line for line in code.text(report).split("\n") if "│" in line]
    gutters = [row.split("│")[0].split(maxsplit=1) for row in rows]
    return {int(g[0]): g[1].strip() if len(g) > 1 else "" for g in gutters}


def test_every_line_has_its_number_and_where_it_ran(reports):
    assert labels(reports["mixed"]) == {
        2: "",
        3: "",
        4: "g0",
        5: "eager ✂",
        6: "g1 eager",
        7: "g1",
        8: "",
        9: "",
    }


def test_with_no_graph_every_statement_is_eager(reports):
    found = labels(reports["nothing"])
    assert found[2] == found[7] == "eager"
    assert found[8] == found[9] == "", "an empty line and a comment ran nowhere"


def test_html_shows_code_labels_key_and_break(reports, page):
    read = page(code.html(reports["mixed"]))
    for words in ("g0: onnxrt", "g1: onnxrt + eager", "eager ✂", "✂ It prints.", "gb0059"):
        assert words in read.text
    assert 'print("<b>&", x.shape)' in read.text


def test_indents_survive_without_a_style_sheet(reports):
    assert "<code>\xa0\xa0\xa0\xa0x = block(x).relu()</code>" in code.html(reports["mixed"])


def test_a_break_link_is_followed_only_to_the_web(reports):
    assert "javascript:" not in code.html(reports["rude"])
    assert 'href="https://meta-pytorch.org' in code.html(reports["mixed"])


def test_lines_of_other_files_are_listed(reports, page):
    mixed = reports["mixed"]
    line = SourceLine("/lib/model.py", 31, "forward", "return self.w @ x")
    operations = tuple(dataclasses.replace(op, line=line) for op in mixed.graphs[0].operations)
    graph = dataclasses.replace(mixed.graphs[0], operations=operations)
    report = dataclasses.replace(mixed, graphs=(graph, mixed.graphs[1]))
    assert "model.py:31 g0 return self.w @ x forward" in page(code.html(report)).text
    assert "model.py:31" in code.text(dataclasses.replace(report, cell=None))


def test_a_run_without_source_and_breaks_has_no_code(reports):
    nothing = dataclasses.replace(reports["nothing"], cell=None)
    assert code.html(nothing) == ""
    assert code.text(nothing) == ""
    empty = dataclasses.replace(nothing, cell=CodeBlock("c", "c.py", 1, ""))
    assert code.html(empty)


def test_breaks_give_reason_hints_and_stack(reports, page):
    read = page(breaks.html(reports["mixed"])).text
    assert "It prints." in read
    assert "Failed to trace builtin operator. Dynamo does not know how to trace builtin" in read
    assert "Move the print out of the compiled code." in read
    assert "✂ train.py:12 1 It prints." in read
    assert "Called from line 5" in read
    assert breaks.html(reports["clean"]) == breaks.text(reports["clean"]) == ""


def test_torchs_own_words_are_folded_under_ours_or_left_out(reports):
    mixed = reports["mixed"]
    folded = breaks.html(mixed).split("<details>")[1].split("</details>")[0]
    assert "Failed to trace builtin operator" in folded
    assert "Move the print out of the compiled code." in folded
    assert breaks.text(mixed).startswith(
        "✂ line 12 of `step` in train.py, called at line 5: It prints.\n    → Print after"
    )
    assert "Move the print" not in breaks.text(mixed)


def test_what_has_no_words_of_ours_keeps_torchs_in_sight(reports):
    odd = dataclasses.replace(reports["mixed"].breaks[0], registry_id="gb9999", reason="Odd.")
    plain = "Dynamo does not yet support subscripting 'it'"
    for explanation, expected in (
        ("It is odd.", "Dynamo cannot trace it (Odd). It is odd. "),
        (f"{plain}. Add a rule.", f"called at line 5: {plain}. "),
    ):
        one = dataclasses.replace(odd, explanation=explanation)
        said = " ".join(breaks.text(dataclasses.replace(reports["mixed"], breaks=(one,))).split())
        assert f"{expected}→ Move the print out of the compiled code." in said


def test_a_break_inside_what_the_cell_calls_is_at_its_own_line(reports, page):
    called = SourceLine("ipy.py", 6, "<module>", "order = f(x)", in_cell=True)
    way = SourceLine("/me/model.py", 20, "f", "return g(x)")
    inner = SourceLine("/me/model.py", 9, "g", "if x.sum() > 0:")
    cut = GraphBreak("gb0170", "Data-dependent branching", "", (), "", called, (called, way, inner))
    report = dataclasses.replace(reports["mixed"], breaks=(cut,))
    read = page(code.html(report)).text
    assert "model.py:9 eager ✂ if x.sum() > 0: g" in read
    assert "✂ model.py:9 1 Its if asks for the value of a tensor." in read
    assert "Called from model.py:20 in f, line 6" in read
    assert "✂ line 9 of `g` in model.py, called at line 6: Its `if` asks" in breaks.text(report)
    assert "\n      if x.sum() > 0:\n" in breaks.text(report)
    assert labels(report)[6] == "g1 eager ✂"


def test_a_skipped_cell_is_eager_on_every_line_though_it_calls_compiled_code() -> None:
    source = "# %%dynamo\nfor i in range(3):\n    y = f(x)"
    cell = CodeBlock("Cell In[2]", "cell", 1, source)
    inside = SourceLine("other", 4, "f", "return x + 1")
    operation = Operation("call_function", "add", "operator.add", "x, 1", "", line=inside)
    graph = Graph("g0", "1/0", "onnxrt", (operation,), "", 0.1, True, 3, 0.01)
    frames = (
        Frame("0/0", "<module>", "cell", 2, "skipped", in_cell=True),
        Frame("1/0", "f", "other", 3, "compiled", ("g0",)),
    )
    report = Report("optimize", "onnxrt", "", cell, 1.0, 0.1, frames=frames, graphs=(graph,))
    lines = code.text(report).splitlines()
    assert [line for line in lines if "eager │ for i" in line or "eager │     y = f(x)" in line]
    assert sum("eager │" in line for line in lines) == 2


def test_the_key_says_which_graph_takes_the_time(reports, page):
    mixed = reports["mixed"]
    first, second, *rest = mixed.graphs
    timed = (
        dataclasses.replace(first, run_seconds=3.0),
        dataclasses.replace(second, run_seconds=1.0),
        *(dataclasses.replace(each, run_seconds=0.0) for each in rest),
    )
    report = dataclasses.replace(mixed, graphs=timed)
    assert "g0: onnxrt, 75% of the graphs' time" in page(code.html(report)).text
    assert "25% of the graphs' time" in code.text(report)
    alone = dataclasses.replace(mixed, graphs=timed[:1])
    assert "of the graphs' time" not in code.text(alone)


def test_lines_have_their_share_of_the_time_where_operations_were_timed(reports, page):
    profiled = reports["profiled"]
    shares = [label for label in labels(profiled).values() if "%" in label]
    assert shares
    assert sum(int(label.split()[-1].rstrip("%")) for label in shares) <= 101
    assert (
        "Percentages are shares of the operations' time in eager." in page(code.html(profiled)).text
    )
    assert "%" not in "".join(labels(reports["mixed"]).values())


def test_what_helps_against_a_break_is_said_alike_among_the_fallbacks(reports, page):
    mixed = reports["mixed"]
    reason = mixed.breaks[0].reason
    gave_up = Fallback(
        "capture", "frame", "2", "", "Unsupported", reason, "Avoid calling it.", break_index=0
    )
    report = dataclasses.replace(mixed, fallbacks=(gave_up,))
    for said in (page(fallbacks.html(report)).text, " ".join(fallbacks.text(report).split())):
        assert "Print after the compiled code" in said
        assert "Avoid calling" not in said


def test_lines_after_an_error_ran_nowhere_and_its_own_is_marked():
    cell = CodeBlock("c", "c.py", 1, "# %%dynamo\na = 1\nfor k in b:\n    c\n    d\ne = 2")
    error = "NameError: c"
    report = Report("optimize", "eager", "", cell, 1.0, 0.1, error=error, stopped_at=4)
    assert labels(report) == {1: "", 2: "eager", 3: "eager", 4: "eager ✗", 5: "eager", 6: ""}
    assert "✗ raised the error" in code.text(report)
    assert "✗ raised the error" in code.html(report)


def test_a_breaks_reason_under_its_line_has_no_backticks(reports, page):
    mixed = reports["mixed"]
    line = mixed.breaks[0].line
    branch = dataclasses.replace(
        mixed.breaks[0], registry_id="", kind="branch", line=line, stack=(line,)
    )
    shown = code.html(dataclasses.replace(mixed, breaks=(branch,)))
    assert "`" not in page(shown).text


def test_what_comes_after_a_break_that_dynamo_could_not_resume_is_eager():
    built = "z = torch.ones(2) * 2\nlayer = torch.nn.Linear(2, 2)\nopt = torch.optim.SGD(layer.parameters())\n"
    cell = f"{built}y = layer(torch.ones(2, 2))\ndef unused(x):\n    return x + 1"
    with live("import torch") as cells:
        report = cells.report(cell, "-b eager")
    lines = code.text(report).split("\n\n")[1].splitlines()
    marks = {line.split("│")[1].strip(): line.split("│")[0].split()[1:] for line in lines}
    assert "eager" in marks["y = layer(torch.ones(2, 2))"]
    assert marks["def unused(x):"] == marks["return x + 1"] == []


def test_a_function_of_another_cell_is_shown_as_tinted_source_before_other_lines(reports, page):
    mixed = reports["mixed"]
    called = SourceLine("ipy2.py", 12, "f", "return v * 2")
    library = SourceLine("/site-packages/lib.py", 3, "g", "v + 1")
    ops = [
        dataclasses.replace(op, called=called) if op.name == "relu" else op
        for op in mixed.graphs[0].operations
    ]
    ops[2] = dataclasses.replace(ops[2], line=library)
    graph = dataclasses.replace(mixed.graphs[0], operations=tuple(ops))
    block = CodeBlock("f, In[5]:11", "ipy2.py", 11, "def f(v):\n    return v * 2\n")
    report = dataclasses.replace(mixed, graphs=(graph, mixed.graphs[1]), functions=(block,))
    read = page(code.html(report)).text
    assert "f, In[5]:11 11 def f(v): 12 g0 return v * 2" in read
    assert read.index("f, In[5]:11") < read.index("Lines elsewhere : 2 lines")
    assert "lib.py:3 g0 v + 1 g" in read
    assert "ipy2.py:12" not in read


def test_a_line_and_the_function_it_calls_share_one_hundred_percent_each(reports):
    profiled = reports["profiled"]
    called = SourceLine("ipy2.py", 12, "f", "return v * 2")
    graphs = tuple(
        dataclasses.replace(
            graph,
            operations=tuple(dataclasses.replace(op, called=called) for op in graph.operations),
        )
        for graph in profiled.graphs
    )
    before, after = labels(profiled), labels(dataclasses.replace(profiled, graphs=graphs))
    assert before == after
