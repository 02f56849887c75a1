"""Hooks on tensors, parameters and modules: whether they run, in which order, with what."""

from __future__ import annotations

from tests.corpus.case import Case, case
from tests.corpus.gradients.between import HEAD as NAMES
from tests.corpus.gradients.between import TWO

HEAD = NAMES + "seen = []\ndef note(name):\n    return lambda g: seen.append((name, g.clone()))\n"

NET = HEAD + (
    "net = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 3))\n"
)

STEP = "out = net(x)\nloss = F.cross_entropy(out, y)"

CASES: list[Case] = [
    case(
        "a hook of a later cell changes the gradient",
        HEAD,
        TWO,
        "# plain\nh.register_hook(lambda g: g * 2)\nloss.backward()",
    ),
    case(
        "hooks of a later cell, in order",
        HEAD,
        TWO,
        """
        # plain
        for name, tensor in (("h", h), ("loss", loss), ("a", a), ("w", w), ("h again", h)):
            tensor.register_hook(note(name))
        loss.backward()
        order = [name for name, _ in seen]
        """,
    ),
    case(
        "one hook sees what another has changed",
        HEAD,
        TWO,
        """
        # plain
        h.register_hook(note("before"))
        h.register_hook(lambda g: g.clamp(-0.01, 0.01))
        h.register_hook(note("after"))
        h.retain_grad()
        loss.backward()
        """,
    ),
    case(
        "hooks registered in the cell",
        HEAD,
        """
        h = (x @ w + 0.5).tanh() * 2
        h.register_hook(note("h"))
        a = (h @ v).sigmoid() * h.mean()
        a.register_hook(lambda g: g * 3)
        a.register_hook(note("a"))
        loss = (a * a).mean() + 0.1
        loss.backward()
        order = [name for name, _ in seen]
        """,
    ),
    case(
        "hooks of the cell and of a later one",
        HEAD,
        TWO + "h.register_hook(note('of the cell'))\nw.register_hook(note('w'))\ndone = 1",
        "# plain\nh.register_hook(note('later'))\na.register_hook(note('a'))\nloss.backward()\norder = [name for name, _ in seen]",
    ),
    case(
        "a removed hook",
        HEAD,
        TWO,
        """
        # plain
        handle = h.register_hook(note("removed"))
        kept = h.register_hook(note("kept"))
        handle.remove()
        loss.backward()
        del handle, kept
        """,
    ),
    case(
        "a hook with the gradients of several names",
        HEAD,
        TWO,
        """
        # plain
        handle = torch.autograd.graph.register_multi_grad_hook(
            (h, a), lambda found: seen.append([g.clone() for g in found])
        )
        loss.backward()
        handle.remove()
        del handle
        """,
    ),
    case(
        "a full backward hook",
        NET + "for i in (0, 2, 4):\n    net[i].register_full_backward_hook("
        "lambda m, gi, go, i=i: seen.append((i, len(gi), go[0].clone())))",
        STEP,
        "# plain\nloss.backward()\norder = [i for i, *_ in seen]",
    ),
    case(
        "a full backward hook that changes the gradient",
        NET + "net[2].register_full_backward_hook(lambda m, gi, go: (gi[0] * 0.5,))\n"
        "net[4].register_full_backward_pre_hook(lambda m, go: (go[0] * 2,))\nready = 1",
        STEP,
        "# plain\nloss.backward()",
    ),
    case(
        "a full backward hook registered in the cell",
        NET,
        "net[2].register_full_backward_hook(lambda m, gi, go: seen.append(go[0].clone()))\n" + STEP,
        "# plain\nloss.backward()",
    ),
    case(
        "a hook after a gradient is accumulated",
        NET
        + "def step(p):\n    seen.append(tuple(p.shape))\n    with torch.no_grad():\n        p.sub_(0.1 * p.grad)\n    p.grad = None\n"
        "for p in net.parameters():\n    p.register_post_accumulate_grad_hook(step)\ndel p",
        STEP + "\nloss.backward()",
        STEP + "\nloss.backward()",
        "# plain\n# the order in which parameters are reached is not promised\nseen.sort()\nfinal = net(x).detach()",
    ),
    case(
        "a forward hook that keeps what layers return",
        NET + "kept = {}\nfor i in (1, 3):\n    net[i].register_forward_hook("
        "lambda m, given, out, i=i: kept.__setitem__(i, out))",
        STEP,
        "# plain\nfor t in kept.values():\n    t.retain_grad()\nloss.backward()\nnorms = [kept[i].grad.norm().item() for i in (1, 3)]",
    ),
]
