"""A comparison in a real kernel: what runs there goes on, and its log stays free of errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from jupyter_client.manager import KernelManager

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Run = Callable[[str], str]

SETUP = """
%load_ext dynamo_ext
%matplotlib agg
import torch, warnings
import ipywidgets, matplotlib.pyplot as plt
from torch.utils.data import DataLoader, TensorDataset
from tqdm.auto import tqdm
net, x = torch.nn.Linear(4, 4), torch.randn(8, 4)
data = TensorDataset(x)
"""
COMPARE = "%%dynamo compare -b aot_eager -n 6 --quiet -o r\n"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Runs a cell, which must end well, and gives what it prints; the log is read at the end."""
    folder: Path = tmp_path_factory.mktemp("kernel")
    manager = KernelManager(kernel_name="python3")
    with (folder / "log.txt").open("w") as log:
        manager.start_kernel(stdout=log, stderr=log, cwd=str(folder))
        client = manager.client()
        client.start_channels()
        try:
            client.wait_for_ready(timeout=120)

            def run_cell(text: str) -> str:
                said: list[str] = []

                def hear(message: dict[str, Any]) -> None:
                    kept = message["content"]
                    said.append(kept.get("text") or "\n".join(kept.get("traceback", ())))

                reply = client.execute_interactive(text, timeout=240, output_hook=hear)
                assert reply["content"]["status"] == "ok", "".join(said)
                return "".join(said)

            run_cell(SETUP)
            yield run_cell
            assert run_cell("print(1 + 1)") == "2\n"
        finally:
            client.stop_channels()
            manager.shutdown_kernel(now=True)
    logged = (folder / "log.txt").read_text()
    assert "Error" not in logged
    assert "Traceback" not in logged


@pytest.mark.parametrize(
    ("setup", "cell", "check", "said"),
    [
        (
            "bar = tqdm(range(3))",
            "for i in bar:\n    y = net(x) * i",
            "print(bar.n, len(list(bar)), bar.n)",
            "0 3 3",
        ),
        (
            "slider, shown = ipywidgets.IntSlider(value=2), ipywidgets.Output()",
            "y = net(x) * slider.value\nwith shown:\n    print('here')",
            "slider.value = 5; print(slider.value)",
            "5",
        ),
        ("fig, ax = plt.subplots()", "y = net(x)\nax.set_title('a')", "fig.canvas.draw()", ""),
        (
            "loader = DataLoader(data, 4, num_workers=1)",
            "for (b,) in loader:\n    y = net(b)",
            "print(len(list(loader)))",
            "2",
        ),
        (
            "kept = DataLoader(data, 4, num_workers=1, persistent_workers=True)\n_ = list(kept)",
            "for (b,) in kept:\n    y = net(b)",
            "print(len(list(kept)))",
            "2",
        ),
        ("log = open('log', 'w')", "y = net(x)\nlog.name", "log.write('a'); log.close()", ""),
    ],
    ids=["progress bar", "widgets", "figure", "loader", "workers that stay", "open file"],
)
def test_what_runs_in_the_kernel_goes_on(
    run: Run, setup: str, cell: str, check: str, said: str
) -> None:
    run(setup)
    run(COMPARE + cell)
    assert (
        run("print([row.outcome for row in r.record.candidates])") == "['measured', 'measured']\n"
    )
    assert run(check).strip().endswith(said)


def test_a_process_that_crashes_is_not_the_kernel(run: Run) -> None:
    run("import ctypes, os\npid = os.getpid()\ndef crashing(*_):\n    ctypes.string_at(0)")
    run("%%dynamo compare -b crashing --isolate -n 8 --quiet -o r\ny = x.sin() + 1")
    assert "segmentation fault" in run("print(r['crashing'].reason)")
    assert run("print(os.getpid() == pid)") == "True\n"
