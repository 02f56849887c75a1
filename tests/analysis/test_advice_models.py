"""What is advised on cells with models of transformers, which are small and made here."""

from __future__ import annotations

import pytest

from dynamo_ext.analysis.advice import advise
from tests.analysis.told import Cell, check
from tests.capture.live import live
from tests.needs import needs

needs("transformers")

SMALL = "vocab_size=64, hidden_size=16, intermediate_size=32, num_hidden_layers=1, "
SMALL += "num_attention_heads=2, max_position_embeddings=64"
IDS = "ids = torch.randint(3, 64, (2, 5))\n"
LLAMA = f"""from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM
config = LlamaConfig({SMALL}, num_key_value_heads=1, bos_token_id=1, eos_token_id=2, pad_token_id=0)
model = LlamaForCausalLM(config).eval()
{IDS}"""
BERT = f"""from transformers import BertConfig, BertForSequenceClassification, BertModel
config = BertConfig({SMALL})
model = BertModel(config).eval()
{IDS}"""
CLASSIFIER = f"{BERT}model = BertForSequenceClassification(config); labels = torch.tensor([0, 1])\n"
MIXTRAL = f"""from transformers import MixtralConfig, MixtralForCausalLM
config = MixtralConfig({SMALL}, num_key_value_heads=1, num_local_experts=4)
model = MixtralForCausalLM(config).eval()
{IDS}"""
GPT2 = f"""from transformers import GPT2Config, GPT2LMHeadModel
config = GPT2Config(vocab_size=64, n_embd=16, n_layer=1, n_head=2, n_positions=64)
model = GPT2LMHeadModel(config).eval()
{IDS}"""
HEAD = """import logging
log = logging.getLogger("head")
class Head(torch.nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body = body
        self.out = torch.nn.Linear(16, 2)
    def forward(self, ids):
        first = self.body(ids).last_hidden_state[:, 0]
        log.info("pooled %s", tuple(first.shape))
        return self.out(first)
net = Head(model)
"""
LORA = """class Lora(torch.nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base
        self.a = torch.nn.Parameter(torch.zeros(16, 2))
        self.b = torch.nn.Parameter(torch.zeros(2, 16))
    def forward(self, x):
        return self.base(x) + x @ self.a @ self.b
own = model.encoder.layer[0].attention.self
own.query = Lora(own.query)
"""
PROCESSORS = """from transformers import LogitsProcessorList, TemperatureLogitsWarper
processors = LogitsProcessorList([TemperatureLogitsWarper(0.5)])
scores = torch.randn(2, 64)
"""
POOLER = """from transformers.models.bert.modeling_bert import BertPooler
x = torch.ones(2, 5, 16)
"""
MASKING = """from transformers.masking_utils import create_bidirectional_mask
x, mask = torch.ones(2, 5, 16), torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]])
"""

FORWARD = "with torch.no_grad():\n    out = model(ids).logits"
CACHED = """cache, token = DynamicCache(config=config), ids
with torch.no_grad():
    for _ in range(2):
        out = model(token, past_key_values=cache, use_cache=True)
        token = out.logits[:, -1:].argmax(-1)
"""
PAST = """with torch.no_grad():
    out = model(ids, use_cache=True)
    out = model(ids[:, :1], past_key_values=out.past_key_values, use_cache=True)
"""
PADDED = """for n in (3, 5):
    mask = torch.ones(2, n, dtype=torch.long)
    mask[0, 2:] = 0
    with torch.no_grad():
        out = model(input_ids=ids[:, :n], attention_mask=mask).last_hidden_state
"""
TOP_P = """with torch.no_grad():
    ordered, index = model(ids).logits[:, -1].softmax(-1).sort(descending=True)
    ordered[ordered.cumsum(-1) - ordered > 0.9] = 0
    token = index.gather(-1, torch.multinomial(ordered, 1))
"""
AUTOCAST = f"with torch.autocast('cpu', dtype=torch.bfloat16):\n    {FORWARD[22:].strip()}"
HIDDEN = "out = model(ids, output_hidden_states=True).hidden_states"
ATTENTIONS = "out = model(ids, output_attentions=True).attentions"
STATE = "h = model(ids).last_hidden_state"
LOSS = "with torch.no_grad():\n    loss = model(ids, labels=labels).loss"
KEPT = "h = model(ids).last_hidden_state\nkept = h[ids > 9]\nmean = kept.mean(0)"
FREEZE = "for p in model.bert.parameters():\n    p.requires_grad_(False)\ny = model(ids).logits"
HOOK = "seen = []\nmodel.encoder.layer[0].register_forward_hook(lambda m, a, out: seen.append(out))"
NUMPY = "with torch.no_grad():\n    h = model(ids).last_hidden_state.mean(1).numpy()\nsim = h @ h.T"

CELLS = [
    Cell("forward", LLAMA, FORWARD),
    Cell("cache", LLAMA, CACHED),
    Cell("past", GPT2, PAST),
    Cell("experts", MIXTRAL, FORWARD),
    Cell("padded batches", BERT, PADDED),
    Cell("mask", BERT + MASKING, "made = create_bidirectional_mask(config=config, inputs_embeds=x, attention_mask=mask)"),
    Cell("sampling", LLAMA, TOP_P),
    Cell("autocast", LLAMA, AUTOCAST),
    Cell("dropout", f"{BERT}model.train()", STATE),
    Cell("hook", BERT + HOOK, STATE),
    Cell("lora", BERT + LORA, STATE),
    Cell("freeze", CLASSIFIER, FREEZE),
    Cell("numpy at the end", BERT, NUMPY),
    Cell("logs", BERT + HEAD, "y = net(ids)", (("break", "because it logs", "ignore_logging_functions"),)),
    Cell("indexed by a mask", BERT, KEPT, (("break", "Line 3 splits the graph because the size", "torch.where"),)),
    Cell("hidden states", BERT, HIDDEN, (("library", "of transformers, called at line 2, splits", "at its first call, make that call before"),)),
    Cell("hidden states again", f"{BERT}model(ids, output_hidden_states=True)", HIDDEN),
    Cell("attentions again", f"{BERT}model.set_attn_implementation('eager'); {ATTENTIONS}", ATTENTIONS),
    Cell("labels", CLASSIFIER, LOSS, (("recompile", "`model.config.problem_type` (None, 'single", "set it once, before"),), runs=2),
    Cell("labels of a known kind", f"{CLASSIFIER}config.problem_type = 'single_label_classification'", LOSS, (("captured", "The code is captured", "%%dynamo compare"),), runs=2),
    Cell("builds a layer", BERT + POOLER, "pool = BertPooler(config)\ny = pool(x)", (("library", "of transformers, called at line 2, splits the graph because it builds a layer", "Build it before"),)),
    Cell("built before", f"{BERT}{POOLER}pool = BertPooler(config)", "y = pool(x)"),
    Cell("converts", LLAMA, f"model.to(torch.bfloat16)\n{FORWARD}", (("library", "called at line 2, splits the graph because it converts a module", "Convert it before"),)),
    Cell("processors", LLAMA + PROCESSORS, "token = processors(ids, scores).argmax(-1)", (("library", "iterates over an object of a class", "call the rest in a plain cell"),)),
    Cell("no engine", LLAMA, FORWARD, (("unavailable", "tensorrt is not available here: torch_tensorrt is not installed", "pip install"),), "-b tensorrt"),
]  # fmt: skip

GENERATE = "out = model.generate(ids, max_new_tokens=2, do_sample=False)"


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.name)
def test_what_is_advised_on_a_model(cell: Cell) -> None:
    check(cell)


@pytest.mark.sweep
def test_generate_runs_in_python_and_what_it_calls_is_captured() -> None:
    sizes = (
        "recompile",
        "dimension 1 of `input_ids` (5, 1)",
        "%%dynamo -b eager --quiet --dynamic",
    )
    runs = ("library", "called at line 2, splits", "`generate` runs in Python, what it calls")
    check(Cell("generate", LLAMA, GENERATE, (sizes, runs)))


def test_where_generate_follows_it_only_sizes_are_left() -> None:
    follow = "import dynamo_ext; model.forward = dynamo_ext.optimize('eager')(model.forward)\n"
    with live(LLAMA) as cells:
        cells.well(follow + GENERATE)
        report = cells.names["model"].forward.report()
    assert not report.breaks
    (found,) = advise(report)
    # No name of the library's can be marked before the call.
    assert (found.topic, found.step) == (
        "recompile",
        "Mark it dynamic: dynamo_ext.optimize(…, dynamic=True).",
    )
