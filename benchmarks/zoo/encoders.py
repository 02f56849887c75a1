"""More text encoders of ``transformers``, with padding, on made-up tokens."""

from __future__ import annotations

from typing import Any

from benchmarks.zoo.model import Built, Model, mean_square, tokens

TINY = {
    "vocab_size": 40,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
}


def _encoder(family: str, time: int, **config: Any) -> Built:
    import transformers

    chosen = getattr(transformers, f"{family}Config")(**config)
    ids, mask = tokens(chosen.vocab_size, time, padded=time // 8)
    module = getattr(transformers, f"{family}Model")(chosen)
    return Built(module, (), {"input_ids": ids, "attention_mask": mask})


MODELS = (
    Model(
        "DistilBERT",
        "transformers.DistilBertModel, distilbert-base-uncased at 64 tokens, 8 of them padding",
        lambda: _encoder("DistilBert", 64),
        lambda: _encoder(
            "DistilBert", 8, vocab_size=40, dim=16, hidden_dim=32, n_layers=2, n_heads=2
        ),
        mean_square,
    ),
    Model(
        "RoBERTa",
        "transformers.RobertaModel, roberta-base at 64 tokens, 8 of them padding",
        lambda: _encoder("Roberta", 64, max_position_embeddings=514, pad_token_id=1),
        lambda: _encoder("Roberta", 8, **TINY),
        mean_square,
    ),
    Model(
        "ALBERT",
        "transformers.AlbertModel, albert-base-v2 at 64 tokens, 8 of them padding",
        lambda: _encoder(
            "Albert", 64, hidden_size=768, num_attention_heads=12, intermediate_size=3072
        ),
        lambda: _encoder("Albert", 8, embedding_size=8, **TINY),
        mean_square,
    ),
    Model(
        "ELECTRA",
        "transformers.ElectraModel, google/electra-small-discriminator at 64 tokens, 8 padding",
        lambda: _encoder("Electra", 64),
        lambda: _encoder("Electra", 8, embedding_size=8, **TINY),
        mean_square,
    ),
)
