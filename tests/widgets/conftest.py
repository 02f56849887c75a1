"""Records made by hand, one of each kind of run, and a reader of html."""

from __future__ import annotations

import dataclasses
from html.parser import HTMLParser
from types import SimpleNamespace

import pytest
from IPython.core import display_functions, getipython

from dynamo_ext.records.capture import Frame, GraphBreak, Guard, Recompile
from dynamo_ext.records.common import CodeBlock, SourceLine
from dynamo_ext.records.comparison import Comparison
from dynamo_ext.records.graph import Graph, Operation, Partition
from dynamo_ext.records.report import Fallback, Report
from tests.widgets.comparisons import COMPARISONS
from tests.widgets.comparisons import rude as rude_comparison

CELL = """\
x = torch.randn(8, 16)
for block in blocks:
    x = block(x).relu()
print("<b>&", x.shape)
order = torch.sort(x, dim=-1)
y = order.values @ w

# the last line is a comment"""

SIZE = "tensor 'x' size mismatch at index 0. expected 8, actual 12"

RUDE = "<b>&\"'</b><script>alert(1)</script>"


def at(number: int) -> SourceLine:
    """A line of the cell."""
    return SourceLine("ipy.py", number, "cell", CELL.split("\n")[number - 2], in_cell=True)


def call(name: str, target: str, args: str, number: int, shape: tuple[str, ...] = ("8", "16")):
    return Operation("call_function", name, target, args, "{}", "torch.float32", shape, at(number))


def of(captured: str, part: Partition) -> Partition:
    """What became of a captured operation."""
    return dataclasses.replace(part, captured=(captured,), role="inference")


BREAK = GraphBreak(
    "gb0059",
    "Failed to trace builtin operator",
    "Dynamo does not know how to trace builtin operator `print` with argument types ['str', 'Size']",
    ("Move the print out of the compiled code.", "Set reorderable_logging_functions."),
    "https://meta-pytorch.org/compile-graph-break-site/gb/gb0059.html",
    at(5),
    (at(5), SourceLine("/home/me/train.py", 12, "step")),
)

G0 = Graph(
    id="g0",
    frame="0/0",
    backend="onnxrt",
    operations=(
        Operation("placeholder", "l_x_", "L_x_", "()", "{}", "torch.float32", ("8", "16")),
        Operation(
            "placeholder", "l_self_parameters_weight_", "W", "()", "{}", "torch.float32", ("16",)
        ),
        call("linear", "torch._C._nn.linear", "(l_x_, l_self_parameters_weight_, None)", 4),
        call("relu", "torch.relu", "(linear,)", 4),
        Operation("output", "output", "output", "((relu,),)", "{}"),
    ),
    source="def forward(self, L_x_):\n    return (torch.relu(L_x_),)",
    compile_seconds=0.42,
    compiled_now=True,
    calls=3,
    run_seconds=0.00071,
    partitions=(
        Partition("p0", "onnxrt", 2, ("aten.addmm.default", "aten.relu.default"), "", 1, 0.2, 1),
    ),
    normalised=2,
    ended_by=0,
)

G1 = Graph(
    id="g1",
    frame="1/0",
    backend="onnxrt",
    operations=(
        Operation("placeholder", "x", "x", "()", "{}", "torch.float32", ("8", "s0")),
        call("sort", "torch.sort", "(x,)", 6),
        call("getitem", "operator.getitem", "(sort, 0)", 6),
        call("matmul", "operator.matmul", "(getitem, w)", 7),
        Operation("output", "output", "output", "((matmul,),)", "{}"),
    ),
    source="def forward(self, x): ...",
    compile_seconds=0.61,
    compiled_now=True,
    calls=1,
    run_seconds=0.0004,
    partitions=(
        of(
            "sort", Partition("p0", "eager", 1, ("aten.sort.default",), "onnxrt has no stable sort")
        ),
        of(
            "matmul",
            Partition("p1", "onnxrt", 2, ("aten.view.default", "aten.mm.default"), "", 0, 0.31, 2),
        ),
    ),
    normalised=3,
)

GUARDS = (
    *tuple(
        Guard(
            "0/0",
            "model",
            f"model.layers[{index}].weight",
            "TENSOR_MATCH",
            (f"check_tensor(L['model'].layers[{index}].weight)",),
            at(4),
            f"model.layers[{index}].weight",
            dtype="float32",
            device="cpu",
            shape=("16", "16"),
        )
        for index in range(36)
    ),
    Guard("0/0", "x", "x", "TENSOR_MATCH", ("x",), at(4), "x"),
    Guard("1/0", "x", "x", "TENSOR_MATCH", ("x",), at(6), "x"),
    Guard("0/0", "", "grad_mode", "GRAD_MODE", ("grad",), None),
    Guard("0/0", RUDE, RUDE, "EQUALS_MATCH", (RUDE,), None, RUDE, "3"),
)

MIXED = Report(
    mode="optimize",
    backend="onnxrt",
    title="cell 4",
    cell=CodeBlock("cell", "ipy.py", 2, CELL),
    seconds=1.6,
    compile_seconds=1.03,
    frames=(
        Frame("0/0", "cell", "ipy.py", 2, "compiled", ("g0",), 38, 0.42, "", in_cell=True),
        Frame("1/0", "resume_in_cell", "ipy.py", 5, "compiled", ("g1",), 2, 0.61, "", in_cell=True),
        Frame("2", "helper", "/lib/h.py", 9, "skipped", reason="no tensor operation in it"),
    ),
    graphs=(G0, G1),
    breaks=(BREAK,),
    guards=GUARDS,
    recompiles=(Recompile("0/0", "cell", SIZE, "x", "8", "12", at(4), False, 2, "size", "x", 0),),
    fallbacks=(
        Fallback(
            "unsupported",
            "partition",
            "g1:p0",
            "aten.sort.default",
            "",
            "onnxrt has no stable sort",
            "Sort outside of the cell.",
            1,
            at(6),
        ),
    ),
    versions=(("torch", "2.13.0"), ("onnxruntime", "1.30")),
)

_WHOLE = dataclasses.replace(G0, partitions=(), ended_by=None)
CLEAN = dataclasses.replace(
    MIXED, graphs=(_WHOLE,), breaks=(), recompiles=(), fallbacks=(), guards=GUARDS[36:38]
)
UNAVAILABLE = dataclasses.replace(
    CLEAN,
    backend="tvm",
    graphs=(dataclasses.replace(_WHOLE, backend="tvm"),),
    fallbacks=(
        Fallback(
            "unavailable",
            "graph",
            "g0",
            "",
            "BackendUnavailableError",
            "tvm is not installed",
            "pip install apache-tvm",
        ),
    ),
)
LONG_ERROR = "RuntimeError: lowering failed\n" + "\n".join(f"  at node_{n} <i>" for n in range(400))
LOWER = dataclasses.replace(
    CLEAN, fallbacks=(Fallback("lower", "graph", "g0", "", "RuntimeError", LONG_ERROR, "", 1),)
)
NOTHING = Report("optimize", "inductor", "cell 7", CodeBlock("c", "ipy.py", 2, CELL), 0.002, 0.0)
RUN = dataclasses.replace(
    CLEAN,
    mode="run",
    recompiles=(Recompile("0/0", "cell", SIZE, "x", "8", "12", None, True, 4, "size", "x", 0),),
)
INTERRUPTED = dataclasses.replace(CLEAN, interrupted=True)
ERROR = dataclasses.replace(CLEAN, error=f"ValueError: {RUDE}")
RUDE_REPORT = dataclasses.replace(
    MIXED,
    title=RUDE,
    backend=RUDE,
    error=RUDE,
    cell=CodeBlock(RUDE, RUDE, 2, RUDE),
    breaks=(dataclasses.replace(BREAK, reason=RUDE, hints=(RUDE,), link="javascript:alert(1)"),),
    fallbacks=(Fallback("run", "graph", RUDE, RUDE, RUDE, RUDE * 30, RUDE, 2),),
    versions=((RUDE, RUDE),),
)


def wide_graph(size: int) -> Graph:
    """A graph of ``size`` nodes: residual blocks, with a weight for every third."""
    operations = [Operation("placeholder", "x", "x", "()", "{}", "torch.float32", ("8", "16"))]
    while len(operations) < size - 1:
        index, last = len(operations), operations[-1].name
        args = f"({last}, add_{index - 3})" if index > 6 and index % 3 == 0 else f"({last},)"
        name = f"add_{index}" if index % 3 == 0 else f"op_{index}"
        operations.append(call(name, "torch.ops.aten.add.Tensor", args, 4))
    operations.append(Operation("output", "output", "output", f"(({operations[-1].name},),)", "{}"))
    return dataclasses.replace(G0, operations=tuple(operations), partitions=(), ended_by=None)


BIG = dataclasses.replace(CLEAN, graphs=(wide_graph(1500),))


def _timed(graph: Graph) -> Graph:
    """The graph with times of its operations in eager: 1 ms, 2 ms, 3 ms …"""
    calls = [op.name for op in graph.operations if op.opcode.startswith("call_")]
    operations = [
        dataclasses.replace(
            op, seconds=1e-3 * (calls.index(op.name) + 1) if op.name in calls else 0.0
        )
        for op in graph.operations
    ]
    return dataclasses.replace(graph, operations=tuple(operations))


PROFILED = dataclasses.replace(
    MIXED,
    graphs=(
        _timed(MIXED.graphs[0]),
        dataclasses.replace(MIXED.graphs[1], untimed="RuntimeError: no kernel"),
    ),
)

REPORTS = {
    "mixed": MIXED,
    "profiled": PROFILED,
    "clean": CLEAN,
    "unavailable": UNAVAILABLE,
    "lower": LOWER,
    "nothing": NOTHING,
    "run": RUN,
    "interrupted": INTERRUPTED,
    "error": ERROR,
    "rude": RUDE_REPORT,
    "big": BIG,
}


class Page(HTMLParser):
    """Html as a browser's parser meets it: its text, tags and ids; raises on wrong nesting."""

    VOID = frozenset({"br"})

    def __init__(self, source: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(source)
        self.close()
        assert not self.open, f"never closed: {self.open}"

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    @property
    def ids(self) -> list[str]:
        return [value for _, attributes in self.tags if (value := attributes.get("id"))]

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open, f"</{tag}> with nothing open"
        assert self.open.pop() == tag

    def handle_data(self, data):
        if not self.open or self.open[-1] != "style":
            self.words.append(data)


@pytest.fixture(params=REPORTS)
def report(request) -> Report:
    """Each kind of report in turn."""
    return REPORTS[request.param]


@pytest.fixture
def reports() -> dict[str, Report]:
    """Every kind of report by name."""
    return REPORTS


@pytest.fixture
def page() -> type[Page]:
    return Page


@pytest.fixture
def rude() -> str:
    """User text that is markup."""
    return RUDE


@pytest.fixture
def graph_of():
    return wide_graph


@pytest.fixture
def compared() -> dict[str, Comparison]:
    """Every kind of comparison by name."""
    return COMPARISONS | {"rude": rude_comparison(RUDE)}


@pytest.fixture(params=[*COMPARISONS, "rude"])
def a_comparison(request, compared) -> Comparison:
    """Each kind of comparison in turn."""
    return compared[request.param]


@pytest.fixture
def sent(monkeypatch):
    """What display() was given, in a kernel."""
    shell = SimpleNamespace(kernel=object())
    outputs: list[dict[str, object]] = []
    monkeypatch.setattr(getipython, "get_ipython", lambda: shell)
    monkeypatch.setattr(
        display_functions, "display", lambda bundle, *, raw: outputs.append(bundle) if raw else None
    )
    monkeypatch.setattr("IPython.display.display", display_functions.display)
    return outputs


@pytest.fixture
def walk():
    """A widget and all that are within it."""

    def within(widget):
        yield widget
        for child in getattr(widget, "children", ()):
            yield from within(child)

    return within
