"""Cells with a loop, as notebooks have them: what each needs first, and the cell itself."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class LoopCell:
    """A cell: its name in the table, the plain cell before it, and its own text.

    ``setup`` is made ``quick`` by the smaller width that it reads.
    """

    name: str
    setup: str
    cell: str


_LEARNER = """\
import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(
    nn.Linear(64, WIDTH), nn.GELU(), nn.LayerNorm(WIDTH),
    nn.Linear(WIDTH, WIDTH), nn.GELU(), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 1),
)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
batches = [(torch.randn(64, 64), torch.randn(64, 1)) for _ in range(20)]
"""

_BLOCK = """\
import torch
from torch import nn

torch.manual_seed(0)
block = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, dropout=0.0, batch_first=True).eval()
x = torch.randn(4, 32, WIDTH)
"""

_DECODER = """\
import torch
from torch import nn

torch.manual_seed(0)
embed, head = nn.Embedding(500, WIDTH), nn.Linear(WIDTH, 500)
block = nn.TransformerEncoderLayer(WIDTH, 4, 2 * WIDTH, dropout=0.0, batch_first=True).eval()
prompt = torch.randint(0, 500, (1, 16))
"""

CELLS: dict[str, LoopCell] = {
    cell.name: cell
    for cell in (
        LoopCell(
            "training, the loss printed at times",
            _LEARNER,
            """\
for step, (inputs, targets) in enumerate(batches):
    optimizer.zero_grad()
    loss = ((model(inputs) - targets) ** 2).mean()
    loss.backward()
    optimizer.step()
    if step % 5 == 0:
        print(step, f"{loss.item():.4f}")
""",
        ),
        LoopCell(
            "training, the losses in a list",
            _LEARNER,
            """\
losses = []
for inputs, targets in batches:
    optimizer.zero_grad()
    loss = ((model(inputs) - targets) ** 2).mean()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
""",
        ),
        LoopCell(
            "training until the loss is small",
            _LEARNER,
            """\
inputs, targets = batches[0]
for step in range(20):
    loss = ((model(inputs) - targets) ** 2).mean()
    if loss.item() < 1e-6:
        break
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
""",
        ),
        LoopCell(
            "a block applied until it changes little",
            _BLOCK,
            """\
with torch.no_grad():
    state = x
    for step in range(20):
        after = block(state)
        if (after - state).abs().max().item() < 1e-9:
            break
        state = after
""",
        ),
        LoopCell(
            "a block applied, nothing read",
            _BLOCK,
            """\
with torch.no_grad():
    state = x
    for step in range(8):
        state = block(state)
""",
        ),
        LoopCell(
            "a sequence that grows",
            _DECODER,
            """\
with torch.no_grad():
    tokens = prompt
    for step in range(16):
        scores = head(block(embed(tokens)))[:, -1]
        tokens = torch.cat([tokens, scores.argmax(-1, keepdim=True)], 1)
        if tokens[0, -1].item() == 500:
            break
""",
        ),
    )
}
