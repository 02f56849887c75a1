"""Token generation as a model: a prompt, then one token after another from a growing cache.

Its calls are bound by memory: each reads every weight for a single row.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from benchmarks.zoo.model import Built, Model, tokens
from benchmarks.zoo.text import TINY

PROMPT = 16
NEW = 40


_end_graph: Any = torch.compiler.disable(lambda: None)  # type: ignore[no-untyped-call]
"""Ends a graph, as ``generate``'s own loop does between two tokens."""


class Generating(nn.Module):
    """The logits of given tokens, one call of the model each, as ``generate`` makes them.

    Parameters
    ----------
    model
        A causal language model of transformers.
    """

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model: Any = model

    def forward(self, prompt: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
        """Logits, ``(batch, following tokens + 1, vocabulary)``.

        The tokens are given, so that an error of one does not change what comes after it.
        """
        from transformers import DynamicCache

        cache = DynamicCache(config=self.model.config)
        found = [self._last(prompt, cache)]
        for place in range(following.shape[1]):
            _end_graph()
            found.append(self._last(following[:, place : place + 1], cache))
        return torch.cat(found, 1)

    def _last(self, ids: torch.Tensor, cache: Any) -> torch.Tensor:
        logits: torch.Tensor = self.model(ids, past_key_values=cache, use_cache=True).logits
        return logits[:, -1:]


def _llama(prompt: int, new: int, **config: Any) -> Built:
    from transformers import LlamaConfig, LlamaForCausalLM

    chosen = LlamaConfig(**config)
    ids, _ = tokens(chosen.vocab_size, prompt + new)
    model = Generating(LlamaForCausalLM(chosen))
    return Built(model, (ids[:1, :prompt], ids[:1, prompt:]), {})


MODEL = Model(
    f"Llama, {NEW} tokens",
    f"transformers.LlamaForCausalLM, 6 layers of width 768, {PROMPT} tokens and then {NEW}",
    lambda: _llama(
        PROMPT,
        NEW,
        vocab_size=8000,
        hidden_size=768,
        intermediate_size=2048,
        num_hidden_layers=6,
        num_attention_heads=12,
        num_key_value_heads=12,
    ),
    lambda: _llama(4, 3, num_key_value_heads=1, **TINY),
)
"""Beside the zoo: it is a loop of calls, which no backend compiles as one graph."""
