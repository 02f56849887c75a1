"""A report of a library's loop (``model.generate``) in JupyterLab: short parts, and small."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

from dynamo_ext.widgets.report.view import TITLES

NOTEBOOK = "generate.ipynb"
SET_UP = """\
%load_ext dynamo_ext
import torch
from transformers import LlamaConfig, LlamaForCausalLM

sizes = {"vocab_size": 512, "hidden_size": 64, "intermediate_size": 128}
heads = {"num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
config = LlamaConfig(**sizes, **heads, pad_token_id=0, bos_token_id=1, eos_token_id=2)
model = LlamaForCausalLM(config).eval()
prompt = torch.randint(3, 512, (1, 8))
"""
CELL = """\
%%dynamo -b eager
with torch.no_grad():
    out = model.generate(prompt, max_new_tokens=8, do_sample=False)
"""
PARTS = {
    "Code": (900, "Nothing needs to be done: generate runs in Python, what it calls is captured."),
    "Fallbacks": (400, "but for modules and your own functions"),
    "Guards": (1500, ""),
}
"""Pixels of a part on a page of 1,400, and what it says; each table in it scrolls by itself."""


@pytest.fixture(scope="module")
def ran(lab_page):
    lab_page.page.set_viewport_size({"width": 1400, "height": 1400})
    lab_page.open_with(NOTEBOOK, SET_UP, CELL, run=2)
    return lab_page


def test_parts_are_short_and_say_what_of_a_library_is_captured(ran, screenshots):
    view = ran.outputs(1).locator(".dx-live")
    for title, (most, said) in PARTS.items():
        view.locator(".lm-TabBar-tab").nth(TITLES.index(title)).click()
        pane = view.locator(".widget-tab-contents > :not(.lm-mod-hidden)")
        expect(pane.locator(".dx").first).to_be_visible()
        assert pane.bounding_box()["height"] < most, title
        expect(pane).to_contain_text(said)
        view.screenshot(path=screenshots / f"generate-{title.lower()}.png")


def test_it_adds_at_most_150_kilobytes(ran):
    ran.reload_without_kernel(NOTEBOOK)
    saved = json.loads((ran.lab.folder / NOTEBOOK).read_text(encoding="utf-8"))
    found = [each["data"] for each in saved["cells"][1]["outputs"] if "data" in each]
    shown = ["".join(data["text/html"]) for data in found if "text/html" in data]
    assert 100_000 < max(len(html.encode()) for html in shown) < 150_000
