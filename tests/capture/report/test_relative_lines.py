"""A function defined in one %%dynamo cell and called in another: whose lines are whose."""

from __future__ import annotations

from dynamo_ext.analysis.advice import advise

DEFINES = """
def looping(t):
    for i in range(2):
        t = t.relu()
        print(i)
    return t
def halved(t):
    t = t.relu() * 2
    print("half")
    return t + 1
a, b = looping(x), halved(x)
"""


def test_lines_of_another_cell_are_not_this_ones(cells):
    cells.report(DEFINES)
    report = cells.report("y = looping(x)\nz = halved(x)")
    (fallback,) = report.fallbacks
    assert (fallback.line.code, fallback.line.in_cell) == ("print(i)", False)
    inside = [op.line for g in report.graphs for op in g.operations if op.line]
    inside += [line for b in report.breaks for line in (b.line, *b.stack) if line]
    inside += [guard.line for guard in report.guards if guard.line]
    file = report.cell.file
    assert inside
    assert all(line.in_cell == (line.file == file) for line in inside)


def test_why_a_function_runs_as_python_is_its_own_break(cells):
    cells.report(DEFINES)
    report = cells.report("y = looping(x)\nz = halved(x)")
    (found,) = [each for each in advise(report) if each.topic == "uncaptured"]
    assert found.problem.startswith("Function looping runs as plain Python: at line 6 of `looping`")
