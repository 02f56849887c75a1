"""Text models of ``transformers``, on made-up tokens."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo.encoders import TINY
from benchmarks.zoo.model import Built, Model, mean_square, tokens


def _bert(time: int, **config: Any) -> Built:
    from transformers import BertConfig, BertModel

    chosen = BertConfig(**config)
    ids, mask = tokens(chosen.vocab_size, time, padded=time // 8)
    return Built(BertModel(chosen), (), {"input_ids": ids, "attention_mask": mask})


def _gpt2(time: int, **config: Any) -> Built:
    from transformers import GPT2Config, GPT2LMHeadModel

    chosen = GPT2Config(use_cache=False, **config)
    ids, _ = tokens(chosen.vocab_size, time)
    return Built(GPT2LMHeadModel(chosen), (ids,), {})


def _t5(time: int, **config: Any) -> Built:
    from transformers import T5Config, T5EncoderModel

    chosen = T5Config(**config)
    ids, mask = tokens(chosen.vocab_size, time, padded=time // 8)
    return Built(T5EncoderModel(chosen), (), {"input_ids": ids, "attention_mask": mask})


def _llama(time: int, **config: Any) -> Built:
    from transformers import LlamaConfig, LlamaModel

    chosen = LlamaConfig(use_cache=False, **config)
    ids, _ = tokens(chosen.vocab_size, time)
    return Built(LlamaModel(chosen), (ids,), {})


_TINY_GPT2 = {
    "vocab_size": 40,
    "n_embd": 16,
    "n_layer": 2,
    "n_head": 2,
    "n_positions": 16,
    "bos_token_id": 0,
    "eos_token_id": 0,
}

MODELS = (
    Model(
        "BERT-base",
        "transformers.BertModel, bert-base-uncased at 64 tokens, 8 of them padding",
        lambda: _bert(64),
        lambda: _bert(8, **TINY),
        mean_square,
    ),
    Model(
        "GPT-2",
        "transformers.GPT2LMHeadModel, gpt2 at 64 tokens, forward",
        lambda: _gpt2(64),
        lambda: _gpt2(6, **_TINY_GPT2),
        mean_square,
    ),
    Model(
        "T5 encoder",
        "transformers.T5EncoderModel, t5-small at 64 tokens, 8 of them padding",
        lambda: _t5(64),
        lambda: _t5(8, vocab_size=40, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2),
        mean_square,
    ),
    Model(
        "Llama block",
        "transformers.LlamaModel, one layer of width 1024, 16 heads on 4 keys, at 64 tokens",
        lambda: _llama(
            64,
            vocab_size=4096,
            hidden_size=1024,
            intermediate_size=2816,
            num_hidden_layers=1,
            num_attention_heads=16,
            num_key_value_heads=4,
        ),
        lambda: _llama(6, num_key_value_heads=1, **TINY),
        mean_square,
    ),
)
