"""Tab on ``%%dynamo`` and ``%dynamo`` lines."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import pytest
from IPython.core.completer import provisionalcompleter

from tests.capture.live import Live, live

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def cells() -> Iterator[Live]:
    with live() as found:
        yield found


def offered(cells: Live, line: str, body: str = "\ny = 1") -> set[str]:
    """The whole words that Tab at the end of ``line`` gives."""
    text = line + body
    with provisionalcompleter():
        found = list(cells.shell.Completer.completions(text, len(line)))
    words = {text[: c.start] + c.text for c in found if c.end == len(line)}
    return {word[word.rindex(" ") + 1 :] if " " in word else word for word in words}


def test_modes_and_options(cells: Live) -> None:
    found = offered(cells, "%%dynamo ")
    assert {"optimize", "run", "-b", "--dynamic", "--static", "-o", "--quiet", "--opt"} <= found


@pytest.mark.parametrize(
    ("line", "wanted", "unwanted"),
    [
        ("%%dynamo o", {"optimize"}, {"run"}),
        ("%%dynamo r", {"run"}, {"optimize"}),
        ("%%dynamo run ", {"-b"}, {"optimize", "run"}),
        ("%%dynamo --", {"--backend", "--dynamic", "--fullgraph", "--strict"}, {"-b"}),
        ("%%dynamo --dy", {"--dynamic"}, {"--static"}),
        ("%%dynamo -b ", {"eager", "inductor", "onnxrt"}, {"optimize"}),
        ("%%dynamo -b on", {"onnxrt"}, {"eager"}),
        ("%%dynamo --backend on", {"onnxrt"}, {"eager"}),
        ("%%dynamo --backend=on", {"--backend=onnxrt"}, {"--backend=eager"}),
        ("%%dynamo run -b in", {"inductor"}, {"eager"}),
        ("%%dynamo -b onnxrt --q", {"--quiet"}, {"--opt"}),
        ("%%dynamo --opt a=1 --op", {"--opt"}, {"--quiet"}),
        ("%%dynamo --quiet --q", set(), {"--quiet"}),
        ("%%dynamo c", {"compare"}, {"run"}),
        ("%%dynamo compare ", {"-b", "--budget", "--check-on", "--opt"}, {"run", "--strict"}),
        ("%%dynamo compare --ch", {"--check-on"}, {"--budget"}),
        ("%%dynamo compare -b onn", {"onnxrt"}, {"eager"}),
        ("%%dynamo compare -b eager,on", {"eager,onnxrt"}, {"onnxrt", "eager,eager"}),
        ("%%dynamo compare --backends=eager,on", {"--backends=eager,onnxrt"}, {"eager"}),
        ("%%dynamo compare -b onnxrt,onnxrt:", {"onnxrt,onnxrt:int8"}, {"onnxrt,eager"}),
        ("%%dynamo -b onnxrt:i", {"onnxrt:int8"}, {"eager"}),
        ("%%dynamo -b eager,on", set(), {"eager,onnxrt"}),
        ("%%dynamo -b onnxrt --opt ", {"freeze=", "min_partition="}, {"--quiet"}),
        ("%%dynamo compare -b ts,auto --opt bud", {"budget="}, {"freeze="}),
        ("%dynamo ", {"backends", "report", "reset", "use"}, {"run", "--quiet"}),
        ("%dynamo re", {"report", "reset"}, {"use"}),
        ("%dynamo use ", {"eager", "inductor", "onnxrt"}, {"report"}),
        ("%dynamo report ", {"--markdown"}, {"use"}),
        ("%dynamo cache ", {"show", "clear", "export", "import"}, {"use"}),
        ("%dynamo cache export ", set(), {"show"}),
        ("%%dynamo compare -b ts --precision ", {"bf16", "fp16", "int8"}, {"--quiet"}),
        ("%%dynamo --capture ", {"all"}, {"--quiet"}),
        ("%dynamo use on", {"onnxrt"}, {"eager"}),
        ("%dynamo backends on", {"onnxrt"}, {"eager"}),
    ],
)
def test_what_may_follow(cells: Live, line: str, wanted: set[str], unwanted: set[str]) -> None:
    found = offered(cells, line)
    assert wanted <= found
    assert not unwanted & found


def test_the_old_interface_completes_too(cells: Live) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PendingDeprecationWarning)
        _, matches = cells.shell.complete("on", "%%dynamo -b on", 14)
    assert "onnxrt" in matches


def test_other_lines_are_left_alone(cells: Live) -> None:
    cells.well("optional_value = 1")
    for line in ("opt", "x = opt", "%%time opt", "%%dynamo -b eager\nopt"):
        assert "optimize" not in offered(cells, line, "")
    assert "optional_value" in offered(cells, "opt", "")


def test_unloading_takes_it_out() -> None:
    with live() as cells:
        before = len(cells.shell.Completer.custom_matchers)
        cells.well("%unload_ext dynamo_ext")
        assert len(cells.shell.Completer.custom_matchers) == before - 1
        assert "optimize" not in offered(cells, "%%dynamo o")
        cells.well("%load_ext dynamo_ext")
        cells.well("%reload_ext dynamo_ext")
        assert len(cells.shell.Completer.custom_matchers) == before
