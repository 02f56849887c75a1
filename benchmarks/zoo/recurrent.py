"""A tagger on torch's LSTM, and the same written as a loop of cells."""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.zoo.model import Built, Model


class Tagger(nn.Module):
    """Embedding, two layers of LSTM in both directions, and a label for each token.

    Parameters
    ----------
    words, width, labels
        Sizes of the vocabulary, of the hidden state and of the output.
    """

    def __init__(self, words: int, width: int, labels: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(words, width)
        self.lstm = nn.LSTM(width, width, num_layers=2, bidirectional=True, batch_first=True)
        self.label = nn.Linear(2 * width, labels)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Map tokens (batch, time) int64 to logits (batch, time, labels)."""
        states, _ = self.lstm(self.embed(tokens))
        logits: torch.Tensor = self.label(states)
        return logits


class Cells(nn.Module):
    """An LSTM as a Python loop over time.

    Parameters
    ----------
    width
        Of input and hidden state.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.cell = nn.LSTMCell(width, width)

    def forward(self, sequence: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Map (batch, time, width) to every hidden state, of the same shape, and the last cell's.

        The states start at zero.
        """
        hidden = sequence.new_zeros(sequence.shape[0], sequence.shape[2])
        memory = torch.zeros_like(hidden)
        states = []
        for step in range(sequence.shape[1]):
            hidden, memory = self.cell(sequence[:, step], (hidden, memory))
            states.append(hidden)
        return torch.stack(states, dim=1), memory


def _tagger(words: int, width: int, labels: int, batch: int, time: int) -> Built:
    return Built(Tagger(words, width, labels), (torch.randint(0, words, (batch, time)),), {})


def _cells(width: int, batch: int, time: int) -> Built:
    return Built(Cells(width), (torch.randn(batch, time, width),), {})


MODELS = (
    Model(
        "LSTM tagger",
        "torch.nn.LSTM",
        lambda: _tagger(5000, 128, 17, 4, 32),
        lambda: _tagger(20, 8, 3, 2, 5),
    ),
    Model(
        "LSTM cells",
        "torch.nn.LSTMCell in a loop",
        lambda: _cells(256, 8, 16),
        lambda: _cells(8, 2, 3),
    ),
)
