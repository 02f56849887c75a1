"""Gradients at names that a cell binds between its inputs and its loss."""

from __future__ import annotations

from tests.corpus.case import Case, case, cases

HEAD = """# plain
import torch
from torch import nn
import torch.nn.functional as F
x = torch.randn(4, 6)
y = torch.tensor([0, 2, 1, 2])
w = torch.randn(6, 5, requires_grad=True)
v = torch.randn(5, 3, requires_grad=True)
"""

TWO = """
h = (x @ w + 0.5).tanh() * 2
a = (h @ v).sigmoid() * h.mean()
loss = (a * a).mean() + 0.1
"""

LOGITS = """
logits = (x @ w).tanh() @ v * 0.5
loss = F.cross_entropy(logits, y)
"""

CASES: list[Case] = [
    case("one name", HEAD, TWO, "# plain\n(at_h,) = torch.autograd.grad(loss, h)"),
    case(
        "several names",
        HEAD,
        TWO,
        "# plain\nat_h, at_a, at_w, at_v = torch.autograd.grad(loss, [h, a, w, v])",
    ),
    case(
        "a name that is no scalar, and a name before it",
        HEAD,
        TWO,
        "# plain\n(at_h,) = torch.autograd.grad(a, h, torch.ones_like(a), retain_graph=True)\n"
        "rows = [torch.autograd.grad(a[i, 0], h, retain_graph=True)[0] for i in range(2)]",
    ),
    case(
        "asked in the cell that binds", HEAD, TWO + "at_h, at_a = torch.autograd.grad(loss, (h, a))"
    ),
    case("retain_grad in a later cell", HEAD, TWO, "# plain\nh.retain_grad()\nloss.backward()"),
    case(
        "retain_grad in the cell",
        HEAD,
        TWO + "for t in (h, a):\n    t.retain_grad()\nloss.backward()",
    ),
    *cases(
        HEAD,
        """
## retain_grad before the name is used
h = (x @ w + 0.5).tanh() * 2
h.retain_grad()
loss = (h @ v).sigmoid().sum() + h.mean()
loss.backward()
## several consumers
h = (x @ w + 0.5).tanh() * 2
left = (h @ v).sigmoid().sum() + 1
right = (h.exp() + h).mean() * 3
both = left * right + h.sum()
# %%
# plain
parts = [torch.autograd.grad(t, h, retain_graph=True)[0] for t in (left, right, both)]
between = torch.autograd.grad(both, (left, right), retain_graph=True)
h.retain_grad()
both.backward()
## views
h = (x @ w + 0.5).tanh() * 2
first, rest = h[:, :2], h.t()[2:]
flat = h.reshape(-1)
loss = (first.exp() + 1).sum() + (rest * rest).sum() + flat[::3].sin().sum()
# %%
# plain
of_views = torch.autograd.grad(loss, (first, rest, flat), retain_graph=True)
(at_h,) = torch.autograd.grad(loss, h)
with torch.no_grad():
    h[0, 0] = 7.0
seen = first[0, 0].item(), flat[0].item()
## an in-place change between names
h = (x @ w + 0.5) * 2
k = h * 3 - 1
same = k
k.mul_(0.5).add_(1).sub_(h)
loss = (k @ v).sigmoid().sum() + h.mean()
# %%
# plain
at_k, at_h = torch.autograd.grad(loss, (k, h))
kept = same is k
## an in-place change through a view
h = (x @ w + 0.5).tanh()
k = h * 2
column = k[:, 0]
column.mul_(3).add_(1)
k[1:, 1] += h[1:, 2]
loss = (k @ v).sigmoid().sum() + 1
# %%
# plain
at_k, at_h = torch.autograd.grad(loss, (k, h))
## a part without gradients
h = (x @ w + 0.5).tanh() * 2
with torch.no_grad():
    scale = (h.abs().mean() + 1) * 2
    hard = (h > 0).float() + h
out = (h / scale + hard) @ v
loss = (out * out).mean() + 1
# %%
# plain
at_h, at_out = torch.autograd.grad(loss, (h, out))
flags = [(t.requires_grad, t.is_leaf) for t in (h, scale, hard, out)]
## detach
h = (x @ w + 0.5).tanh() * 2
target = h.detach() + 1
loss = ((h @ v).sigmoid().sum(1, keepdim=True) - target).pow(2).mean()
# %%
# plain
(at_h,) = torch.autograd.grad(loss, h)
flags = target.requires_grad, target.is_leaf
## requires_grad_ in the cell
e = (x * 2 + 1).tanh()
e.requires_grad_()
h = (e @ w + 0.5).tanh() * 2
loss = (h @ v).sigmoid().sum()
loss.backward()
# %%
flags = e.is_leaf, h.is_leaf
# e and w have gradients
found = e.grad.shape, w.grad.shape
## leaves, and what requires gradients
h = (x @ w + 0.5).tanh() * 2
plain = (x * 2 + 1).exp()
chosen = h.argmax(1) + 1
mask = (h > 0) & (h < 1)
clone = h.clone() * 1
flags = [(t.is_leaf, t.requires_grad, t.retains_grad) for t in (h, plain, chosen, mask, clone)]
# %%
# plain
later = [(t.is_leaf, t.requires_grad) for t in (h, plain, chosen, mask, clone)]
""",
    ),
    case(
        "logits and loss",
        HEAD,
        LOGITS,
        "# plain\nprobabilities = logits.softmax(-1)\nlogits.retain_grad()\nloss.backward()",
    ),
    case(
        "the gradient of a loss at its logits, by the rule",
        HEAD,
        LOGITS,
        """
        # plain
        (got,) = torch.autograd.grad(loss, logits)
        close = torch.allclose(got, (logits.softmax(-1) - F.one_hot(y, 3)) / 4, atol=1e-6)
        """,
    ),
    case(
        "backward twice, the graph retained",
        HEAD,
        LOGITS,
        "# plain\nloss.backward(retain_graph=True)\nonce = w.grad.clone()\nloss.backward()\nratio = w.grad / once",
    ),
    case(
        "a retained backward after one that was not",
        HEAD,
        LOGITS,
        "# plain\nloss.backward()",
        LOGITS,
        "# plain\nloss.backward(retain_graph=True)\nloss.backward(retain_graph=True)\nloss.backward()",
    ),
    case(
        "backward twice without retaining",
        HEAD,
        LOGITS,
        "# plain\nloss.backward()\nloss.backward()",
        raises="RuntimeError",
    ),
    case(
        "a name that has no part in the loss",
        HEAD,
        TWO + "side = (h.detach() @ v).exp() + 1\nother = (x @ w).relu() + 1",
        "# plain\nfound = torch.autograd.grad(loss, (side, other, h), retain_graph=True, allow_unused=True)",
        "# plain\ntorch.autograd.grad(loss, other)",
        raises="RuntimeError",
    ),
    case(
        "a list of losses",
        HEAD,
        """
        losses = []
        for power in (1, 2, 3):
            losses.append(((x @ w).tanh() @ v).pow(power).mean() + 1)
        total = sum(losses)
        """,
        """
        # plain
        at_w = [torch.autograd.grad(one, w, retain_graph=True)[0] for one in losses]
        of_total = torch.autograd.grad(total, losses, retain_graph=True)
        total.backward()
        """,
    ),
    case(
        "losses that share nothing",
        HEAD,
        "one = (x @ w).tanh().pow(2).sum() + 1\ntwo = (v * v).exp().mean() * 2",
        "# plain\none.backward()\nuntouched = v.grad is None\ntwo.backward()",
    ),
    case(
        "losses that share a name which keeps nothing for backward",
        HEAD,
        "h = x @ w + 0.5\none = (h * 2).sum() + 1\ntwo = (h[:, :3] + v[0]).mean() * 2",
        "# plain\n(of_one,) = torch.autograd.grad(one, h)\n(of_two,) = torch.autograd.grad(two, h)",
    ),
    case(
        "one loss after another in the cell",
        HEAD,
        """
        one = (x @ w).tanh().pow(2).sum() + 1
        two = (one.detach() * v).exp().mean() * 2
        one.backward()
        two.backward()
        """,
    ),
    case(
        "what a function returns in a dictionary",
        HEAD
        + "def run(t):\n    h = (t @ w + 0.5).tanh() * 2\n    return {'h': h, 'out': (h @ v).sigmoid().sum(1)}",
        "found = run(x)\nloss = found['out'].pow(2).sum()",
        "# plain\nat_h, at_out = torch.autograd.grad(loss, (found['h'], found['out']))",
    ),
    case(
        "names of two cells",
        HEAD,
        "h = (x @ w + 0.5).tanh() * 2",
        "a = (h @ v).sigmoid() + 1\nloss = (a * a).mean() + 0.1",
        "# plain\nat_a, at_h = torch.autograd.grad(loss, (a, h), retain_graph=True)\nloss.backward()",
    ),
    case(
        "one tensor of two names",
        HEAD,
        "h = (x @ w + 0.5).tanh() * 2\nagain = h\nloss = (again @ v).sigmoid().sum() + h.sum()",
        "# plain\nat_again, at_h = torch.autograd.grad(loss, (again, h))\nsame = again is h",
    ),
    case(
        "states of a recurrence",
        HEAD + "u = torch.randn(5, 5, requires_grad=True)",
        """
        state, states = torch.zeros(5), []
        for row in x:
            state = (row @ w + state @ u).tanh()
            states.append(state)
        loss = state.pow(2).sum() + 1
        """,
        "# plain\nreach = torch.autograd.grad(loss, states)\nfarther = [g.norm().item() for g in reach]",
    ),
    case(
        "an RNN's hidden states",
        HEAD + "net, head = nn.GRU(6, 5, batch_first=True), nn.Linear(5, 3)",
        "out, last = net(x[None])\nlogits = head(out[:, -1]) * 2 + 1\nloss = F.cross_entropy(logits, y[:1])",
        """
        # plain
        found = torch.autograd.grad(loss, (out, last, logits), retain_graph=True, allow_unused=True)
        loss.backward()
        """,
    ),
    case(
        "attention maps",
        HEAD,
        """
        q, k = (x @ w).tanh(), (x @ w).sigmoid()
        scores = q @ k.t() / 5 ** 0.5
        attention = scores.softmax(-1)
        out = attention @ k @ v
        loss = out.pow(2).mean() + 1
        """,
        "# plain\nfound = torch.autograd.grad(loss, (attention, scores, q, k, out))",
    ),
    case(
        "a layer's attention weights",
        HEAD + "layer = nn.MultiheadAttention(6, 2, batch_first=True)",
        "out, weights = layer(x[None], x[None], x[None])\nloss = (out * out).sum() + (weights * weights.log()).sum()",
        "# plain\nat_out, at_weights = torch.autograd.grad(loss, (out, weights), retain_graph=True)\nloss.backward()",
    ),
]
