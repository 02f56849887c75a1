"""Training steps that bind what lies between the input and the update."""

from __future__ import annotations

from tests.corpus.case import Case, case

HEAD = """# plain
import copy
import torch
from torch import nn
import torch.nn.functional as F
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(6, 8), nn.Linear(8, 8), nn.Linear(8, 3)
    def features(self, t):
        return self.b(self.a(t).tanh()).sigmoid()
    def forward(self, t):
        return self.c(self.features(t))
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
x = torch.randn(4, 6)
y = torch.tensor([0, 2, 1, 2])
"""

LATER = "# plain\nwith torch.no_grad():\n    now = net(x)"

CASES: list[Case] = [
    case(
        "features, logits and loss",
        HEAD,
        """
        features = net.features(x)
        logits = net.c(features)
        loss = F.cross_entropy(logits, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        """,
        LATER,
    ),
    case(
        "loss in one cell, update in the next",
        HEAD,
        "features = net.features(x)\nlogits = net.c(features)\nloss = F.cross_entropy(logits, y)",
        "# plain\nfeatures.retain_grad()\nlogits.retain_grad()\nloss.backward()\nopt.step()",
        LATER,
    ),
    case(
        "clipped gradients",
        HEAD,
        """
        logits = net(x) * 3
        loss = F.cross_entropy(logits, y)
        loss.backward()
        before = nn.utils.clip_grad_norm_(net.parameters(), 0.05)
        opt.step()
        """,
        LATER,
    ),
    case(
        "frozen layers, then free ones",
        HEAD,
        """
        for p in (*net.a.parameters(), *net.b.parameters()):
            p.requires_grad_(False)
        features = net.features(x)
        logits = net.c(features)
        loss = F.cross_entropy(logits, y)
        loss.backward()
        frozen = [p.grad is None for p in net.parameters()], features.requires_grad
        del p
        """,
        "# plain\nfor p in net.parameters():\n    p.requires_grad_()\ndel p",
        "features = net.features(x)\nloss = F.cross_entropy(net.c(features), y)\nloss.backward()",
        "# plain\nfree = features.requires_grad, features.is_leaf",
    ),
    case(
        "shared weights",
        HEAD,
        """
        code = (x @ net.a.weight.t()).tanh() * 2
        back = code @ net.a.weight + 1
        loss = F.mse_loss(back, x)
        """,
        "# plain\nat_code, at_back = torch.autograd.grad(loss, (code, back), retain_graph=True)\nloss.backward()",
    ),
    case(
        "a moving average of the weights",
        HEAD + "average = copy.deepcopy(net)",
        """
        for step in range(2):
            opt.zero_grad()
            loss = F.cross_entropy(net(x), y)
            loss.backward()
            opt.step()
            with torch.no_grad():
                for slow, fast in zip(average.parameters(), net.parameters()):
                    slow.lerp_(fast, 0.5)
        target = average(x).detach()
        """,
    ),
    case(
        "gradients set to zero between",
        HEAD,
        """
        one = F.cross_entropy(net(x), y)
        one.backward()
        first = net.c.weight.grad
        opt.zero_grad(set_to_none=False)
        zeros = first.clone()
        two = (net(x) * 2).logsumexp(1).mean()
        two.backward()
        same = net.c.weight.grad is first
        """,
    ),
    case(
        "gradients of several batches",
        HEAD,
        """
        losses = []
        for part, label in zip(x.split(2), y.split(2)):
            loss = F.cross_entropy(net(part), label) / 2
            loss.backward()
            losses.append(loss.detach())
        opt.step()
        opt.zero_grad()
        """,
        LATER,
    ),
    case(
        "an optimizer used twice",
        HEAD,
        """
        logits = net(x) * 2
        loss = F.cross_entropy(logits, y)
        loss.backward()
        opt.step()
        opt.step()
        again = F.cross_entropy(net(x), y)
        opt.zero_grad()
        again.backward()
        opt.step()
        """,
        LATER,
    ),
    case(
        "a gradient penalty",
        HEAD,
        """
        given = x.clone().requires_grad_()
        score = net(given).logsumexp(1).sum()
        (slope,) = torch.autograd.grad(score, given, create_graph=True)
        penalty = (slope.norm(dim=1) - 1).pow(2).mean()
        total = score * 0.1 + penalty
        total.backward()
        """,
        LATER,
    ),
    case(
        "two players",
        HEAD
        + "made = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 6))\nz = torch.randn(4, 2)\n"
        "other = torch.optim.SGD(made.parameters(), lr=0.1)",
        """
        fake = made(z)
        judged = net(fake.detach())[:, 0]
        critic = F.softplus(judged).mean() + F.softplus(-net(x)[:, 0]).mean()
        opt.zero_grad()
        critic.backward()
        opt.step()
        maker = F.softplus(-net(fake)[:, 0]).mean()
        other.zero_grad()
        maker.backward()
        other.step()
        """,
        "# plain\nflags = fake.requires_grad, judged.requires_grad, fake.is_leaf",
    ),
    case(
        "a student and its teacher",
        HEAD + "teacher = Net()",
        """
        with torch.no_grad():
            soft = (teacher(x) / 2).softmax(-1)
        logits = net(x) / 2
        hard, kept = F.cross_entropy(logits, y), F.kl_div(logits.log_softmax(-1), soft, reduction="batchmean")
        loss = 0.3 * hard + 0.7 * kept
        """,
        "# plain\nfound = torch.autograd.grad(loss, (hard, kept, logits), retain_graph=True)\nloss.backward()\n"
        "untouched = all(p.grad is None for p in teacher.parameters())",
    ),
    case(
        "an autoencoder's code",
        HEAD + "noise = torch.randn(4, 8)",
        """
        mean, spread = net.a(x).tanh(), net.b(net.a(x)).sigmoid()
        code = mean + spread.exp() * noise
        back = code @ net.a.weight + 1
        rebuilt, kl = F.mse_loss(back, x), 0.5 * (mean.pow(2) + spread.exp() - spread - 1).mean()
        loss = rebuilt + kl
        """,
        "# plain\nfound = torch.autograd.grad(loss, (code, mean, spread, back, rebuilt, kl), retain_graph=True)\nloss.backward()",
    ),
    case(
        "two views of one encoder",
        HEAD + "shift = torch.randn(4, 6) * 0.1",
        """
        one, two = F.normalize(net.features(x), dim=1), F.normalize(net.features(x + shift), dim=1)
        likeness = one @ two.t() / 0.5
        loss = F.cross_entropy(likeness, torch.arange(4))
        """,
        "# plain\nat_one, at_two, at_all = torch.autograd.grad(loss, (one, two, likeness), retain_graph=True)\nloss.backward()",
    ),
    case(
        "statistics of a batch, once a step",
        HEAD + "norm = nn.BatchNorm1d(8)",
        "h = net.a(x).tanh()\nn = norm(h)\nloss = F.cross_entropy(net.c(n.sigmoid()), y)",
        "# plain\nat_h, at_n = torch.autograd.grad(loss, (h, n), retain_graph=True)\nloss.backward()",
    ),
    case(
        "dropout between names",
        HEAD,
        "torch.manual_seed(3)\nh = F.dropout(net.a(x).tanh() + 2)\nlogits = net.c(net.b(h).relu())\nloss = F.cross_entropy(logits, y)",
        "# plain\nat_h, at_logits = torch.autograd.grad(loss, (h, logits), retain_graph=True)\nloss.backward()\nzeros = (h == 0).sum().item()",
    ),
    case(
        "a checkpointed part",
        HEAD + "from torch.utils.checkpoint import checkpoint",
        "h = checkpoint(net.features, x, use_reentrant=False)\nlogits = net.c(h)\nloss = F.cross_entropy(logits, y)",
        "# plain\nat_h, at_logits = torch.autograd.grad(loss, (h, logits), retain_graph=True)\nloss.backward()",
    ),
    case(
        "autocast",
        "# plain\nimport torch\nx = torch.tensor([[1.0, -1, 0], [2, 1, -2]])\n"
        "w = torch.tensor([[1.0, 2], [-1, 0], [2, -2]], requires_grad=True)\n"
        "v = torch.tensor([[1.0], [-2]], requires_grad=True)",
        """
        with torch.autocast("cpu", dtype=torch.bfloat16):
            h = (x @ w).relu() * 2
            out = h @ v + 1
        loss = (out.float() * 0.5).sum()
        """,
        "# plain\nat_h, at_out = torch.autograd.grad(loss, (h, out), retain_graph=True)\nloss.backward()",
    ),
    case(
        "a function with a backward of its own",
        HEAD
        + "class Sign(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, t):\n        ctx.save_for_backward(t)\n        return t.sign()\n"
        "    @staticmethod\n    def backward(ctx, g):\n        (t,) = ctx.saved_tensors\n        return g * (t.abs() < 1)",
        "h = net.a(x) * 2\ns = Sign.apply(h)\nlogits = net.c(s + 0.5 * h.tanh())\nloss = F.cross_entropy(logits, y)",
        "# plain\nat_h, at_s, at_logits = torch.autograd.grad(loss, (h, s, logits), retain_graph=True)\nloss.backward()",
        differs="Dynamo rewrites Function.apply into an operator of its own",
    ),
    case(
        "a term of the weights",
        HEAD,
        """
        data = F.cross_entropy(net(x), y)
        decay = sum((p * p).sum() for p in net.parameters()) * 0.01
        loss = data + decay
        """,
        "# plain\nparts = torch.autograd.grad(loss, (data, decay), retain_graph=True)\nloss.backward()\nopt.step()",
        LATER,
    ),
    case(
        "names left by a loop",
        HEAD,
        """
        for step in range(3):
            logits = net(x) * 2
            loss = F.cross_entropy(logits, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        final = F.cross_entropy(net(x) * 2, y)
        """,
        "# plain\n(at,) = torch.autograd.grad(final, net.c.weight)\nflags = logits.requires_grad, loss.is_leaf",
    ),
    case(
        "a judge of real and detached made samples, then of the made ones",
        HEAD,
        """
        judge = nn.Sequential(nn.Linear(3, 4), nn.LeakyReLU(), nn.Linear(4, 1))
        real, made = torch.ones(4, 3) * 2, net(x)
        of_judge = (judge(real) - 1).square().mean() + judge(made.detach()).square().mean()
        of_judge.backward()
        of_net = (judge(made) - 1).square().mean()
        opt.zero_grad()
        of_net.backward()
        opt.step()
        """,
        LATER,
    ),
]
