"""Models of ``transformers`` for text, on made-up tokens and without a cache, and for speech."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.zoo.model import Built, Model, tokens


def _encoder(family: str, time: int = 64, kind: str = "Model", **config: Any) -> Built:
    """A model of tokens of which an eighth is padding."""
    chosen, ids, mask = _configured(family, time, time // 8, config)
    return Built(_made(f"{family}{kind}", chosen), (), {"input_ids": ids, "attention_mask": mask})


def _decoder(family: str, time: int = 64, kind: str = "Model", **config: Any) -> Built:
    chosen, ids, _ = _configured(family, time, 0, {"use_cache": False, **config})
    return Built(_made(f"{family}{kind}", chosen), (ids,), {})


def _configured(
    family: str, time: int, padded: int, config: dict[str, Any]
) -> tuple[Any, torch.Tensor, torch.Tensor]:
    chosen = _made(f"{family}Config", **config)
    return chosen, *tokens(chosen.vocab_size, time, padded)


def _made(name: str, *args: Any, **options: Any) -> Any:
    import transformers

    return getattr(transformers, name)(*args, **options)


def _whisper(**config: Any) -> Built:
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    chosen = WhisperConfig(**config)
    frames = 2 * chosen.max_source_positions
    sound = torch.randn(1, chosen.num_mel_bins, frames)
    return Built(WhisperEncoder(chosen), (sound,), {})


TINY: dict[str, Any] = {
    "vocab_size": 40,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
}
_WIDE: dict[str, Any] = {
    "vocab_size": 4096,
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "num_hidden_layers": 2,
    "num_attention_heads": 16,
}
_SPECIAL: dict[str, Any] = {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
_TINY_GPT2: dict[str, Any] = {
    "vocab_size": 40,
    "n_embd": 16,
    "n_layer": 2,
    "n_head": 2,
    "n_positions": 16,
    "bos_token_id": 0,
    "eos_token_id": 0,
}
_TINY_OPT: dict[str, Any] = {
    "vocab_size": 40,
    "hidden_size": 16,
    "word_embed_proj_dim": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "ffn_dim": 32,
}
_TINY_T5: dict[str, Any] = {
    "vocab_size": 40,
    "d_model": 16,
    "d_kv": 8,
    "d_ff": 32,
    "num_layers": 2,
    "num_heads": 2,
}
_TINY_DISTILBERT: dict[str, Any] = {
    "vocab_size": 40,
    "dim": 16,
    "hidden_dim": 32,
    "n_layers": 2,
    "n_heads": 2,
}
_TINY_MAMBA: dict[str, Any] = {
    "vocab_size": 40,
    "hidden_size": 16,
    "state_size": 4,
    "num_hidden_layers": 1,
}


def _encoder_and_decoder(width: int, layers: int, heads: int, inner: int) -> dict[str, Any]:
    sides = {"layers": layers, "attention_heads": heads, "ffn_dim": inner}
    both = {f"{side}_{k}": v for side in ("encoder", "decoder") for k, v in sides.items()}
    return {"d_model": width, **both}


_TINY_BART: dict[str, Any] = {
    "vocab_size": 40,
    "decoder_start_token_id": 0,
    "forced_eos_token_id": None,
    **_encoder_and_decoder(16, 1, 2, 32),
}
_TINY_WHISPER: dict[str, Any] = {
    "d_model": 16,
    "encoder_layers": 2,
    "encoder_attention_heads": 2,
    "encoder_ffn_dim": 32,
    "max_source_positions": 6,
    "num_mel_bins": 8,
}
_WHISPER: dict[str, Any] = {
    "d_model": 384,
    "encoder_layers": 4,
    "encoder_attention_heads": 6,
    "encoder_ffn_dim": 1536,
    "max_source_positions": 500,
}
_ALBERT: dict[str, Any] = {"hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072}

MODELS = (
    Model(
        "BERT-base",
        "transformers.BertModel, bert-base-uncased at 64 tokens, 8 of them padding",
        lambda: _encoder("Bert"),
        lambda: _encoder("Bert", 8, **TINY),
    ),
    Model(
        "GPT-2",
        "transformers.GPT2LMHeadModel, gpt2 at 64 tokens, forward",
        lambda: _decoder("GPT2", kind="LMHeadModel"),
        lambda: _decoder("GPT2", 6, "LMHeadModel", **_TINY_GPT2),
    ),
    Model(
        "T5 encoder",
        "transformers.T5EncoderModel, t5-small at 64 tokens, 8 of them padding",
        lambda: _encoder("T5", kind="EncoderModel"),
        lambda: _encoder("T5", 8, "EncoderModel", **_TINY_T5),
    ),
    Model(
        "Llama block",
        "transformers.LlamaModel, one layer of width 1024, 16 heads on 4 keys, at 64 tokens",
        lambda: _decoder("Llama", num_key_value_heads=4, **{**_WIDE, "num_hidden_layers": 1}),
        lambda: _decoder("Llama", 6, num_key_value_heads=1, **TINY),
    ),
    Model(
        "DistilBERT",
        "transformers.DistilBertModel, distilbert-base-uncased at 64 tokens, 8 of them padding",
        lambda: _encoder("DistilBert"),
        lambda: _encoder("DistilBert", 8, **_TINY_DISTILBERT),
    ),
    Model(
        "RoBERTa",
        "transformers.RobertaModel, roberta-base at 64 tokens, 8 of them padding",
        lambda: _encoder("Roberta", max_position_embeddings=514, pad_token_id=1),
        lambda: _encoder("Roberta", 8, **TINY),
    ),
    Model(
        "ALBERT",
        "transformers.AlbertModel, albert-base-v2 at 64 tokens, 8 of them padding",
        lambda: _encoder("Albert", **_ALBERT),
        lambda: _encoder("Albert", 8, embedding_size=8, **TINY),
    ),
    Model(
        "ELECTRA",
        "transformers.ElectraModel, google/electra-small-discriminator at 64 tokens, 8 padding",
        lambda: _encoder("Electra"),
        lambda: _encoder("Electra", 8, embedding_size=8, **TINY),
    ),
    Model(
        "OPT",
        "transformers.OPTModel, facebook/opt-125m at 64 tokens",
        lambda: _decoder("OPT"),
        lambda: _decoder("OPT", 6, **_SPECIAL, **_TINY_OPT),
    ),
    Model(
        "Mistral",
        "transformers.MistralModel, two layers of width 1024, 16 heads on 4 keys, at 64 tokens",
        lambda: _decoder("Mistral", num_key_value_heads=4, **_WIDE),
        lambda: _decoder("Mistral", 6, num_key_value_heads=1, **TINY),
    ),
    Model(
        "Qwen3",
        "transformers.Qwen3Model, two layers of width 1024, 16 heads on 4 keys, at 64 tokens",
        lambda: _decoder("Qwen3", num_key_value_heads=4, head_dim=64, **_WIDE),
        lambda: _decoder("Qwen3", 6, num_key_value_heads=1, head_dim=8, **TINY),
    ),
    Model(
        "Phi",
        "transformers.PhiModel, two layers of width 1024, 16 heads, at 64 tokens",
        lambda: _decoder("Phi", **_WIDE),
        lambda: _decoder("Phi", 6, **_SPECIAL, **TINY),
    ),
    Model(
        "BART",
        "transformers.BartModel, facebook/bart-base at 32 tokens, encoder and decoder",
        lambda: _decoder("Bart", 32, **_encoder_and_decoder(768, 6, 12, 3072)),
        lambda: _decoder("Bart", 6, **_SPECIAL, **_TINY_BART),
    ),
    Model(
        "Mamba",
        "transformers.MambaModel, two layers of width 768, state 16, at 16 tokens, PyTorch's path",
        lambda: _decoder("Mamba", 16, vocab_size=4096, hidden_size=768, num_hidden_layers=2),
        lambda: _decoder("Mamba", 4, **_SPECIAL, **_TINY_MAMBA),
    ),
    Model(
        "Whisper encoder",
        "transformers' WhisperEncoder, openai/whisper-tiny, 10 seconds of sound",
        lambda: _whisper(**_WHISPER),
        lambda: _whisper(**_TINY_WHISPER),
    ),
)
