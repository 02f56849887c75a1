"""A graph convolution whose messages are scattered to the nodes."""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.zoo.model import Built, Model


class GraphConvolution(nn.Module):
    """One layer of Kipf and Welling's graph convolutional network (arXiv:1609.02907).

    Parameters
    ----------
    inputs, outputs
        Features of a node before and after.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs, bias=False)
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, nodes: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        """Mix each node's features with its neighbours'.

        Parameters
        ----------
        nodes
            (n, inputs) floats.
        edges
            (2, e) int64: from, to.

        Returns
        -------
        torch.Tensor
            (n, outputs).
        """
        source, target = edges[0], edges[1]
        ones = torch.ones_like(target, dtype=nodes.dtype)
        degree = torch.zeros_like(nodes[:, 0]).index_add(0, target, ones).clamp(min=1)
        weight = degree[source].rsqrt() * degree[target].rsqrt()
        hidden = self.linear(nodes)
        messages = hidden[source] * weight.unsqueeze(-1)
        index = target.unsqueeze(-1).expand_as(messages)
        return torch.zeros_like(hidden).scatter_add(0, index, messages) + self.bias


def _gcn(nodes: int, edges: int, inputs: int, outputs: int) -> Built:
    ends = torch.randint(0, nodes, (2, edges))
    return Built(GraphConvolution(inputs, outputs), (torch.randn(nodes, inputs), ends), {})


MODELS = (
    Model(
        "GCN layer",
        "arXiv:1609.02907, with Cora's sizes",
        lambda: _gcn(2708, 10556, 1433, 16),
        lambda: _gcn(9, 20, 6, 4),
        batched=False,
    ),
)
