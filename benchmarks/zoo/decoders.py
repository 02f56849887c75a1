"""More generating models of ``transformers``, one forward pass without a cache."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo.encoders import TINY
from benchmarks.zoo.model import Built, Model, mean_square, tokens


def _decoder(family: str, time: int, **config: Any) -> Built:
    import transformers

    chosen = getattr(transformers, f"{family}Config")(use_cache=False, **config)
    ids, _ = tokens(chosen.vocab_size, time)
    return Built(getattr(transformers, f"{family}Model")(chosen), (ids,), {})


_WIDE = {
    "vocab_size": 4096,
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "num_hidden_layers": 2,
    "num_attention_heads": 16,
}
_SPECIAL = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
_TINY_BART = {
    "vocab_size": 40,
    "d_model": 16,
    "encoder_layers": 1,
    "decoder_layers": 1,
    "encoder_attention_heads": 2,
    "decoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "decoder_start_token_id": 0,
    "forced_eos_token_id": None,
}

MODELS = (
    Model(
        "OPT",
        "transformers.OPTModel, facebook/opt-125m at 64 tokens",
        lambda: _decoder("OPT", 64),
        lambda: _decoder(
            "OPT",
            6,
            **_SPECIAL,
            vocab_size=40,
            hidden_size=16,
            word_embed_proj_dim=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            ffn_dim=32,
        ),
        mean_square,
    ),
    Model(
        "Mistral",
        "transformers.MistralModel, two layers of width 1024, 16 heads on 4 keys, at 64 tokens",
        lambda: _decoder("Mistral", 64, num_key_value_heads=4, **_WIDE),
        lambda: _decoder("Mistral", 6, num_key_value_heads=1, **TINY),
        mean_square,
    ),
    Model(
        "Qwen3",
        "transformers.Qwen3Model, two layers of width 1024, 16 heads on 4 keys, at 64 tokens",
        lambda: _decoder("Qwen3", 64, num_key_value_heads=4, head_dim=64, **_WIDE),
        lambda: _decoder("Qwen3", 6, num_key_value_heads=1, head_dim=8, **TINY),
        mean_square,
    ),
    Model(
        "Phi",
        "transformers.PhiModel, two layers of width 1024, 16 heads, at 64 tokens",
        lambda: _decoder("Phi", 64, **_WIDE),
        lambda: _decoder("Phi", 6, **_SPECIAL, **TINY),
        mean_square,
    ),
    Model(
        "BART",
        "transformers.BartModel, facebook/bart-base at 32 tokens, encoder and decoder",
        lambda: _decoder(
            "Bart",
            32,
            d_model=768,
            encoder_layers=6,
            decoder_layers=6,
            encoder_attention_heads=12,
            decoder_attention_heads=12,
            encoder_ffn_dim=3072,
            decoder_ffn_dim=3072,
        ),
        lambda: _decoder("Bart", 6, **_SPECIAL, **_TINY_BART),
        mean_square,
    ),
    Model(
        "Mamba",
        "transformers.MambaModel, two layers of width 768, state 16, at 16 tokens, PyTorch's path",
        lambda: _decoder("Mamba", 16, vocab_size=4096, hidden_size=768, num_hidden_layers=2),
        lambda: _decoder(
            "Mamba", 4, **_SPECIAL, vocab_size=40, hidden_size=16, state_size=4, num_hidden_layers=1
        ),
        mean_square,
    ),
)
