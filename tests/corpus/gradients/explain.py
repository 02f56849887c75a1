"""What explains a model by gradients: which input, which feature, which example it goes by."""

from __future__ import annotations

from tests.corpus.case import Case, case

HEAD = """# plain
import torch
from torch import nn
import torch.nn.functional as F
body = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(4, 6, 3, padding=1), nn.Tanh())
head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 4))
im = torch.randn(2, 3, 8, 8)
"""

TEXT = """# plain
import torch
from torch import nn
import torch.nn.functional as F
table = nn.Embedding(20, 8)
layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
out = nn.Linear(8, 2)
ids = torch.tensor([[3, 7, 7, 1], [0, 19, 2, 5]])
"""

CASES: list[Case] = [
    case(
        "saliency",
        HEAD,
        """
        given = im.clone().requires_grad_()
        scores = head(body(given))
        best = scores.amax(1).sum()
        best.backward()
        saliency = given.grad.abs().amax(1)
        """,
        "flags = given.is_leaf, scores.requires_grad, saliency.requires_grad",
    ),
    case(
        "saliency over two cells",
        HEAD + "im.requires_grad_()",
        "scores = head(body(im))\nbest = scores[:, 1].sum() + 1",
        "# plain\nbest.backward()\nsaliency = im.grad.abs().amax(1)",
    ),
    case(
        "Grad-CAM",
        HEAD,
        "f = body(im)\nscores = head(f)",
        """
        # plain
        (g,) = torch.autograd.grad(scores[:, 2].sum(), f)
        cam = (g.mean((2, 3), keepdim=True) * f).sum(1).relu().detach()
        """,
    ),
    case(
        "Grad-CAM in one cell",
        HEAD,
        """
        f = body(im)
        scores = head(f)
        (g,) = torch.autograd.grad(scores[:, 2].sum(), f)
        cam = (g.mean((2, 3), keepdim=True) * f).sum(1).relu()
        """,
    ),
    case(
        "Grad-CAM by hooks on a layer",
        HEAD + "kept, grads = [], []\n"
        "body[3].register_forward_hook(lambda m, i, o: (kept.append(o), o.register_hook(grads.append))[2:] or None)\nready = 1",
        "scores = head(body(im))",
        "# plain\nscores[:, 2].sum().backward()\ncam = (grads[0].mean((2, 3), keepdim=True) * kept[0]).sum(1).relu().detach()",
    ),
    case(
        "integrated gradients",
        HEAD + "base = torch.zeros_like(im)\ntotal = torch.zeros_like(im)",
        """
        for step in range(1, 5):
            point = (base + step / 4 * (im - base)).requires_grad_()
            score = head(body(point))[:, 0].sum()
            (g,) = torch.autograd.grad(score, point)
            total = total + g / 4
        integrated = (im - base) * total
        """,
        "gap = integrated.sum() - (head(body(im)) - head(body(base)))[:, 0].sum().detach()",
    ),
    case(
        "SmoothGrad",
        HEAD + "noises = torch.randn(3, *im.shape) * 0.1",
        """
        maps = []
        for noise in noises:
            point = (im + noise).requires_grad_()
            head(body(point)).logsumexp(1).sum().backward()
            maps.append(point.grad)
        smooth = torch.stack(maps).mean(0)
        """,
    ),
    case(
        "feature visualisation",
        HEAD + "seed = torch.rand(1, 3, 8, 8)",
        """
        dream = seed.clone().requires_grad_()
        opt = torch.optim.SGD([dream], lr=0.5)
        history = []
        for _ in range(3):
            opt.zero_grad()
            channel = body(dream)[:, 2]
            loss = -channel.mean() + 0.01 * dream.pow(2).mean()
            loss.backward()
            opt.step()
            history.append(loss.item())
        """,
        "# plain\nflags = dream.is_leaf, channel.requires_grad, opt.param_groups[0]['params'][0] is dream",
    ),
    case(
        "deep dream",
        HEAD,
        """
        dream = im.clone().requires_grad_()
        for _ in range(3):
            features = body(dream)
            goal = features.pow(2).mean() + 1
            goal.backward()
            with torch.no_grad():
                dream += 0.1 * dream.grad / (dream.grad.std() + 1e-6)
            dream.grad.zero_()
        """,
    ),
    case(
        "an adversarial input",
        HEAD + "labels = torch.tensor([1, 3])",
        """
        given = im.clone().requires_grad_()
        scores = head(body(given))
        loss = F.cross_entropy(scores, labels)
        loss.backward()
        attack = (given + 0.25 * given.grad.sign()).clamp(-3, 3).detach()
        after = head(body(attack))
        """,
        "# plain\nharm = (F.cross_entropy(after, labels) - loss).item() > 0",
    ),
    case(
        "influence of an example",
        HEAD + "labels = torch.tensor([1, 3])\nlast = list(head.parameters())",
        """
        scores = head(body(im))
        losses = F.cross_entropy(scores, labels, reduction="none")
        """,
        """
        # plain
        rows = [torch.autograd.grad(one, last, retain_graph=True) for one in losses]
        influence = torch.tensor([[sum((a * b).sum() for a, b in zip(p, q)) for q in rows] for p in rows])
        """,
    ),
    case(
        "influence of a word",
        TEXT,
        """
        words = table(ids)
        hidden = layer(words)
        scores = out(hidden.mean(1))
        """,
        """
        # plain
        (g,) = torch.autograd.grad(scores[:, 1].sum(), words, retain_graph=True)
        influence = (g * words).sum(-1).detach()
        (at_hidden,) = torch.autograd.grad(scores[:, 1].sum(), hidden)
        """,
    ),
    case(
        "a Jacobian, row by row",
        HEAD,
        "given = im[:1].clone().requires_grad_()\nscores = head(body(given))[0]",
        "# plain\njacobian = torch.stack([torch.autograd.grad(s, given, retain_graph=True)[0] for s in scores])",
    ),
    case(
        "a gradient check by hand",
        "# plain\nimport torch\nw = torch.randn(3, 2, dtype=torch.float64)\np = torch.randn(2, 3, dtype=torch.float64)",
        """
        def f(t):
            return ((t @ w).tanh() * 2 + 1).pow(2).sum()

        given = p.clone().requires_grad_()
        value = f(given)
        (exact,) = torch.autograd.grad(value, given)
        numeric = torch.zeros_like(p)
        for i in range(2):
            for j in range(3):
                e = torch.zeros_like(p)
                e[i, j] = 1e-6
                numeric[i, j] = (f(p + e) - f(p - e)) / 2e-6
        right = torch.allclose(exact, numeric, atol=1e-6)
        del numeric
        """,
        "# plain\nassert right",
    ),
    case(
        "torch's gradient check",
        "# plain\nimport torch\nw = torch.randn(3, 2, dtype=torch.float64, requires_grad=True)\n"
        "p = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)",
        """
        def f(t, u):
            return ((t @ u).tanh() * 2 + 1).pow(2).sum(0)

        right = torch.autograd.gradcheck(f, (p, w))
        """,
    ),
    case(
        "a Hessian-vector product",
        "# plain\nimport torch\nw = torch.randn(3, 2)\np = torch.randn(2, 3, requires_grad=True)\nd = torch.randn(2, 3)",
        """
        value = ((p @ w).tanh() * 2 + 1).pow(2).sum()
        (g,) = torch.autograd.grad(value, p, create_graph=True)
        (hv,) = torch.autograd.grad((g * d).sum(), p)
        """,
    ),
]
