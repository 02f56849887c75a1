"""Whisper's encoder, of ``transformers``."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.zoo.model import Built, Model, mean_square


def _whisper(**config: Any) -> Built:
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    chosen = WhisperConfig(**config)
    frames = 2 * chosen.max_source_positions
    sound = torch.randn(1, chosen.num_mel_bins, frames)
    return Built(WhisperEncoder(chosen), (sound,), {})


MODELS = (
    Model(
        "Whisper encoder",
        "transformers' WhisperEncoder, openai/whisper-tiny, 10 seconds of sound",
        lambda: _whisper(
            d_model=384,
            encoder_layers=4,
            encoder_attention_heads=6,
            encoder_ffn_dim=1536,
            max_source_positions=500,
        ),
        lambda: _whisper(
            d_model=16,
            encoder_layers=2,
            encoder_attention_heads=2,
            encoder_ffn_dim=32,
            max_source_positions=6,
            num_mel_bins=8,
        ),
        mean_square,
    ),
)
