"""A notebook of its own process that says what our package changed there: ``main(*backends)``.

What plain ``torch.compile`` changes in the same process (its caches and counters) is torch's own,
unless it is code. All else that may change has its reason here.
"""

from __future__ import annotations

import gc
import re
import sys
import warnings
from typing import TYPE_CHECKING

import torch
import torch.func
import torch.utils.data  # its modules are there before the first look

from tests import process_state
from tests.magics.shell import Notebook, notebook, run_cell

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.process_state import State

SETUP = """
import torch
from torch import nn
model = nn.Sequential(
    nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU(),
    nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True), nn.Linear(8, 4),
)
loop = nn.LSTM(8, 8, batch_first=True).eval()
turn = nn.GRU(8, 8, batch_first=True).eval()
look = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2)).eval()
step = torch.optim.SGD(model.parameters(), lr=0.01)
x, image = torch.randn(2, 5, 8), torch.randn(1, 3, 8, 8)
def infer(x):
    with torch.no_grad():
        found = model(x), loop(x)[0], turn(x)[0], look((image * 2 + 1 - image) / 3)
    torch._dynamo.graph_break()
    return float(found[0].sum())
def train(x):
    loss = model(x).pow(2).mean()
    loss.backward()
    step.step()
    step.zero_grad()
"""
INFER = """
with torch.no_grad():
    y, z, u, v = model(x), loop(x)[0], turn(x)[0], look(image)
total = 0.0
for k in range(3):
    total += float((y * k).sum())
"""
TRAIN = """
for _ in range(2):
    loss = model(x).pow(2).mean()
    loss.backward()
    step.step()
    step.zero_grad()
"""

_OURS = "It is ours, and named so."
_TORCHS = "Torch's own, of what it compiled."
_SCIPY = "SciPy's import does it, whose statistics `compare` needs."

EXPECTED: tuple[tuple[str, str], ...] = (
    # What the package adds under its own name.
    (r"torch\._dynamo\.trace_rules\.SKIP_DIRS(_RE|\[.*)?", "Dynamo is not to trace our own files."),
    (r"torch\._dynamo\.variables\.base\.VariableTrackerMeta\.all_subclasses\[.*", _OURS),
    (r"copyreg\[(Unavailable)?Compiler@.*", _OURS),
    (r"shell magics.*\[dynamo\]", _OURS),
    (r"shell events\[(pre|post)_run_cell\]\[.*", "Plain cells are timed until %unload_ext."),
    (r"atexit", "Names of Dynamo's leave Python's builtins before the process ends."),
    (r"builtins\[(__builtins_dict__|__compiled_fn_|__resume_at_|__import_|__\w*optimizer_).*",
     "Compiled code of cells finds Dynamo's names there; `%dynamo reset` takes them out."),
    # What the import of a package does that the code needs; docs/limits.md says so.
    (r"warnings filters(\[.*)?", _SCIPY),
    (r"copyreg\[(_BackendState|_Function|_SetBackendContext|_SkipBackendContext)@.*", _SCIPY),
    # What running any cell does.
    (r"shell attributes\[(_last_input_line|outputs)\]", "IPython's own, of any cell."),
    (r"shell magics\[line\]\[(re|un)?load_ext\]", "IPython's own, of any %load_ext."),
    # What compiling does, whoever asks for it.
    (r".*\.__(slotnames|warningregistry)__(\[.*)?", "A cache of Python's own."),
    (r"torch\._subclasses\.fake_impls\.FAST_OP_IMPLEMENTATIONS\[.*", _TORCHS),
    (r"torch\.optim\.\w+\.__(builtins_dict__|compiled_fn_|resume_at_|\w*optimizer_).*", _TORCHS),
)  # fmt: skip

OF_ENGINES: dict[str, tuple[tuple[str, str], ...]] = {
    "onnx2tf": (
        (r"environment\[\w+\]", "TensorFlow's import sets variables of its own."),
        (r"(copyreg|builtins|sys\.meta_path|gc callbacks)\[.*", "TensorFlow's import, and absl's."),
    ),
    "tvm": (
        (r"environment\[TVM_\w+\]", "TVM reads them whenever a thread first calls it."),
        (r"sys\.meta_path\[.*", "TVM's import, for names of its own."),
    ),
    "xla": (
        (r"environment\[\w+\]", "JAX's import sets variables of its own."),
        (r"gc callbacks\[.*", "JAX's import adds it."),
    ),
    "inductor": (
        (r"recursion limit", "Inductor raises it to 2,000, and leaves it so."),
        (r"torch\._inductor\.runtime\.compile_tasks\..*", "What Inductor generated, run again."),
        (r"torch\._inductor\.(codecache|async_compile)\.\w*(Cache|Kernels)\..*", "Its caches."),
        (r"torch\._inductor\.codecache\.FxGraphCachePickler\._pickleable_type_cache\[.*",
         "Its cache of types."),
        (r"torch\._inductor\.metrics\..*", "Its counters."),
        (r"torch\._inductor\.debug\._inductor_.*", "Its notes of the last graph, for debugging."),
    ),
    "openvino": ((r"sys\.meta_path\[.*", "OpenVINO's import imports absl, which adds it."),),
}  # fmt: skip
"""What the engines' own packages change, and cannot be kept from."""


def main(*backends: str) -> None:
    """Print what has changed and should not have, one a line, after the backend that changed it."""
    warnings.simplefilter("ignore")
    with notebook() as shell:
        for text in (SETUP, INFER, TRAIN, "import ipywidgets, IPython.display", "1", "2"):
            cell(shell, text)

        def look() -> State:
            gc.collect()
            return process_state.snapshot("torch", "functorch", shell=shell)

        first = look()
        compile_plainly(shell, backends)
        before = look()
        changed = process_state.differences(first, before)
        own = {process_state.base(path) for path in changed if path.startswith("torch.")}
        import_us()
        cell(shell, "%load_ext dynamo_ext")
        for backend in backends:
            # What the engines change is looked for in rows of their own.
            options = " --opt candidates=ts+onnxrt" if backend == "auto" else ""
            cell(shell, f"%%dynamo -b {backend}{options} --quiet\n{INFER}")
            cell(shell, f"%%dynamo -b {backend}{options} --quiet\n{TRAIN}")
            cell(shell, f"%%dynamo compare -b {backend}{options} --budget 1 --quiet\n{INFER}")
            after = look()
            found: dict[str, list[str]] = {}
            for path, change in sorted(process_state.differences(before, after).items()):
                if not is_expected(path, backend, own, before):
                    found.setdefault(process_state.base(path), []).append(f"{path}: {change}")
            for changes in found.values():
                print(f"{backend}: {len(changes)} changes, as {changes[0]}", flush=True)  # noqa: T201
            before = after


def cell(shell: Notebook, text: str) -> None:
    """Run one that ends well."""
    ran = run_cell(shell, text)
    if ran.error is not None:
        raise ran.error


def import_us() -> None:
    """Import the package and what its names load."""
    import dynamo_ext

    for name in dynamo_ext.__all__:
        getattr(dynamo_ext, name)


def compile_plainly(shell: Notebook, backends: Sequence[str]) -> None:
    """Have torch fill the caches and counters of its own."""
    inductor = () if {"auto", "inductor"}.isdisjoint(backends) else ("inductor", "inductor")
    for name in (*inductor, "eager", "aot_eager"):
        for function in ("infer", "train"):
            compiled = torch.compile(shell.user_ns[function], backend=name)
            compiled(shell.user_ns["x"])
        if name == "inductor":
            # The second time it finds the first one's code on disk, which fills other caches.
            torch._dynamo.reset()


def is_expected(path: str, backend: str, own: set[str], before: State) -> bool:
    """Whether a change is torch's own, or has its reason above."""
    engines = OF_ENGINES if backend == "auto" else {backend: OF_ENGINES.get(backend, ())}
    reasons = (*EXPECTED, *(each for of in engines.values() for each in of))
    if any(re.fullmatch(pattern, path) for pattern, _ in reasons):
        return True
    return process_state.base(path) in own and not process_state.is_code(before, path)


if __name__ == "__main__":
    main(*sys.argv[1:])
