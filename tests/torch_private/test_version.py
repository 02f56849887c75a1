"""Capture says in one sentence what a torch lacks, before it imports anything private."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from benchmarks import code_size
from dynamo_ext.backends import registry
from dynamo_ext.errors import UnsupportedTorchError
from dynamo_ext.torch_private import version
from tests.backends.own_process import silent

ENGINES = ("cudagraphs", "inductor", "onnx", "torchscript")


@pytest.mark.parametrize("feature", [*version.FEATURES, *ENGINES])
def test_this_torch_has_all_names(feature: str) -> None:
    names = version.names(feature)
    assert names
    lacking = [name for name in names if not version._exists(name)]
    assert bool(lacking) is (feature in version.SEEN_ON[torch.__version__.split("+")[0]])


def test_each_file_belongs_to_one_feature() -> None:
    owned = [path for feature in (*version.FEATURES, *ENGINES) for path in version._files(feature)]
    private = [
        path
        for path in code_size.files("dynamo_ext")
        if "torch_private" in path.relative_to(code_size.ROOT).with_suffix("").parts
    ]
    assert sorted(owned) == private


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Take names from torch, for the length of a test."""

    monkeypatch.setattr(version, "SEEN_ON", {})

    def take(owner: Any, name: str) -> None:
        monkeypatch.delattr(owner, name)
        version.missing.cache_clear()

    yield take
    monkeypatch.undo()
    version.missing.cache_clear()


def test_an_engines_names_make_that_engine_unavailable(without: Any) -> None:
    without(torch._C, "_jit_pass_dce")
    rows = {row.name: row.availability for row in registry.describe()}
    assert "has no torch._C._jit_pass_dce, which torchscript needs" in rows["ts"].reason
    assert rows["ts"].remedy == version.REMEDY
    assert rows["eager"].available
    assert rows["inductor"].available


def test_a_features_names_switch_that_off(without: Any) -> None:
    without(torch.nn.modules.transformer, "_detect_is_causal_mask")
    # Torch 2.11 and 2.12 lack a name of that one anyway.
    (reason,) = [each for each in version.switched_off() if version.NUMBERS not in each]
    assert "_detect_is_causal_mask, which recurrent layers, masked transformers needs" in reason
    version.require()


def test_what_repairs_an_older_torch_is_needed_there_alone(without: Any) -> None:
    without(torch._dynamo.variables.lists, "TupleVariable")
    version.require()
    assert version.reason_without(version.OLDER)
    is_older = version.minor(torch.__version__) in version.OLDER
    assert (version.OLDER in version.lost_features()) is is_older


def test_a_missing_name_is_one_clear_error(without: Any) -> None:
    without(torch._dynamo.convert_frame, "register_bytecode_hook")
    with pytest.raises(UnsupportedTorchError, match="register_bytecode_hook, which capturing"):
        version.require()


WITHOUT = """
import torch._dynamo.variables.functions as functions
del functions.LocalGeneratorObjectVariable
from dynamo_ext.torch_private import version
version.SEEN_ON = {"2.0.0": set()}
from tests.magics.shell import notebook, run_cell
with notebook() as shell:
    run_cell(shell, "%load_ext dynamo_ext")
    ran = run_cell(shell, "%%dynamo -b eager\\nimport torch\\ny = torch.ones(2) + 1")
    assert "has no torch._dynamo.variables.functions.LocalGeneratorObjectVariable" in str(ran.error), ran.error
    assert type(ran.error).__name__ == "UsageError", ran.error
import dynamo_ext
try:
    dynamo_ext.optimize("eager")
except dynamo_ext.errors.UnsupportedTorchError as error:
    assert "Install torch" in str(error), error
else:
    raise AssertionError
"""


def test_a_cell_and_optimize_say_what_a_torch_lacks() -> None:
    silent(WITHOUT)


WITHOUT_FEATURES = """
import torch
from torch._dynamo import eval_frame
from torch.nn.modules import transformer
vars(eval_frame).pop("_next_isolate_recompiles_id", None)  # torch 2.11 and 2.12 have none
del transformer._detect_is_causal_mask
import dynamo_ext
from dynamo_ext.torch_private import version
version.SEEN_ON = {"2.0.0": set()}
def add(x):
    return x + 1
fast = dynamo_ext.optimize("eager")(add)
assert fast(torch.ones(1)).item() == 2
report = fast.report()
assert len(report.graphs) == 1
*lost, unseen = report.fallbacks
said = " ".join(found.message for found in lost)
assert "which recurrent layers, masked transformers needs" in said, said
assert unseen.harmless and unseen.message.endswith("but with 2.0.0."), unseen
found = dynamo_ext.compare(add, (torch.ones(1),), backends=["aot_eager", "ts"], budget=0.2).record
assert "measured" in {row.outcome for row in found.candidates}, found
from tests.magics.shell import notebook, run_cell
with notebook() as shell:
    run_cell(shell, "%load_ext dynamo_ext")
    text = run_cell(shell, "%dynamo backends eager").text
    assert "which recurrent layers" in text and unseen.message in text, text
"""


def test_a_report_says_which_features_are_off() -> None:
    silent(WITHOUT_FEATURES)
