"""Architectures of transformers: made small by the names of their fields, and run four times."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("transformers")

from benchmarks.architectures import __main__ as command
from benchmarks.architectures import run, table
from benchmarks.architectures.inputs import Inputs, choices
from benchmarks.architectures.make import Made, architectures, build, search
from benchmarks.architectures.run import Row, measure
from benchmarks.architectures.shrink import RECIPES, Recipe, small

ROOT = Path(__file__).resolve().parents[2]


def test_a_configuration_gets_small_all_over():
    usual = {
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 11008,
        "num_hidden_layers": 4,
        "layer_types": ["sliding", "sliding", "sliding", "full"],
        "vocab_size": 32000,
        "eos_token_id": 31999,
        "pad_token_id": 0,
        "max_position_embeddings": 4096,
        "vision_config": {
            "hidden_size": 1024,
            "image_size": 224,
            "patch_size": 14,
            "depths": [3, 9],
        },
        "rope": {"mrope_section": [16, 24, 24]},
    }
    assert small(usual, RECIPES[0]) == {
        "hidden_size": 256,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 688,
        "num_hidden_layers": 2,
        "layer_types": ["sliding", "full"],
        "vocab_size": 512,
        "eos_token_id": 511,
        "pad_token_id": 0,
        "max_position_embeddings": 128,
        "vision_config": {"hidden_size": 64, "image_size": 56, "patch_size": 14, "depths": [2, 2]},
        "rope": {"mrope_section": [1, 24, 24]},
    }


def test_recipes_have_names_and_an_order():
    assert [Recipe.named(recipe.name) for recipe in RECIPES] == list(RECIPES)
    assert Recipe(0, 1, image=False).is_larger(Recipe(2, 4, image=True))
    assert not Recipe(2, 4, image=True).is_larger(Recipe(4, 0, image=True))


@pytest.mark.parametrize(
    ("architecture", "model", "name"),
    [
        ("bert", "BertForMaskedLM", "input_ids"),
        ("vit", "ViTForImageClassification", "pixel_values"),
        ("wav2vec2", "Wav2Vec2ForCTC", "input_values"),
    ],
)
def test_models_are_made_without_weights(architecture, model, name):
    made = search(architecture)
    assert (made.model, made.names, made.error) == (model, (name,), "")
    assert made.parameters < 1_000_000
    module = build(architecture, model, Recipe.named(made.recipe))
    again = build(architecture, model, Recipe.named(made.recipe))
    assert all(map(torch.equal, module.parameters(), again.parameters()))
    assert made.names in choices(module)
    assert len(Inputs(module, made.names).make(3, seed=0)[name]) == 3


def test_what_cannot_be_made_says_why():
    assert "timm" in search("dab-detr").error
    assert len(architectures()) > 300


@pytest.mark.sweep
@pytest.mark.parametrize("engine", ["onnxrt", "openvino"])
def test_the_four_steps_of_a_model(engine):
    pytest.importorskip({"onnxrt": "onnxruntime"}.get(engine, engine))
    made = Made("bert", "BertForMaskedLM", "2-0-1", ("input_ids",))
    row = measure(made, engine)
    assert (row.status, row.breaks) == ("right", 0)
    assert row.in_engine > 0.9 * row.operations > 0


@pytest.mark.parametrize("step", run.STEPS)
def test_a_wrong_step_is_found(monkeypatch, step):
    made = Made("bert", "BertForMaskedLM", "2-0-1", ("input_ids",))
    calls = iter(run.STEPS)
    right = run.results

    def off(model, given):
        found = right(model, given)
        if not isinstance(model, torch.nn.Module) or hasattr(model, "report"):
            found = [tensor + (next(calls) == step) for tensor in found]
        return found

    monkeypatch.setattr(run, "results", off)
    row = measure(made, "eager")
    assert (row.status, row.step) == ("wrong", step)


FORKED = """
import os, time
from benchmarks.architectures.forked import answer
from benchmarks.workers import Bounds

bounds = Bounds(20.0, 64.0)
print(answer(lambda: {"a": "x" * 100_000}, bounds) == {"a": "x" * 100_000})
print(answer(lambda: {"a": 1 / 0}, bounds))
print(answer(os.abort, bounds))
print(answer(lambda: time.sleep(60), Bounds(0.2, 64.0)))
"""


def test_a_forked_process_costs_one_answer():
    # Not of this process, which may have threads.
    done = subprocess.run(
        [sys.executable, "-c", FORKED], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines() == [
        "True",
        "ZeroDivisionError: division by zero",
        "The process was ended by SIGABRT.",
        "It had no result after 0 s.",
    ]


def test_a_run_goes_on_and_writes_its_page(monkeypatch, tmp_path):
    made = Made("bert", "BertForMaskedLM", "2-0-1", ("input_ids",), 7)
    monkeypatch.setattr(
        command, "search", lambda name: made if name == "bert" else Made(name, error="no")
    )
    measured = []

    def answer(function, bounds):
        found = function()
        measured.append(found)
        return found

    monkeypatch.setattr(command.forked, "answer", answer)
    monkeypatch.setattr(
        command, "measure", lambda made, engine: Row(made.architecture, engine, "M")
    )
    words = ["--architectures", "bert", "nobody", "--engine", "onnxrt"]
    words += ["--rows", str(tmp_path / "r.gz"), "--write", str(tmp_path / "page.md")]
    assert command.main(words) == 0
    assert len(measured) == 3
    assert command.main(words) == 0
    assert len(measured) == 3
    page = (tmp_path / "page.md").read_text()
    assert "| bert | BertForMaskedLM | not captured |" in page
    assert "| nobody | no |" in page


def test_the_page_counts_what_engines_did():
    made = [Made("a", "A"), Made("b", "B"), Made("c", error="x | y")]
    rows = [
        Row("a", "onnxrt", "A", operations=10, in_engine=10, graphs=2, breaks=1),
        Row(
            "b",
            "onnxrt",
            "B",
            "wrong",
            "changed weights",
            "off",
            graphs=1,
            operations=30,
            in_engine=20,
            refused=("aten.sort",),
        ),
        Row(
            "a",
            "tvm",
            "A",
            "failed",
            reason="The process was ended by SIGSEGV.",
            faults=("run: 3",),
        ),
    ]
    text = table.page(made, rows, "Measured with: x.", command.ENGINES)
    assert "| `onnxrt` | 2 | 1 | 0 | 1 | 0 | 75.0% | 1 | 0 |" in text
    assert "| a | A | 100%, 2 / 1 | **failed**  |" in text
    assert "| b | `onnxrt` | wrong | changed weights | off |" in text
    assert "| `onnxrt` | `aten.sort` | 1 |" in text
    assert "| c | x \\| y |" in text
