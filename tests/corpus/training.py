"""Modules, autograd, optimizers, autocast: the cells of a training notebook."""

from __future__ import annotations

from tests.corpus.case import Case, case

TORCH = "# plain\nimport torch\nfrom torch import nn\nimport torch.nn.functional as F"
NET = TORCH + (
    "\nclass Net(nn.Module):\n    def __init__(self, width=4):\n        super().__init__()\n"
    "        self.a = nn.Linear(3, width)\n        self.b = nn.Linear(width, 1)\n"
    "    def forward(self, t):\n        return self.b(F.relu(self.a(t)))\n"
    "net = Net()\nx = torch.randn(5, 3)\ny = torch.randn(5, 1)"
)

CASES: list[Case] = [
    case("module forward", NET, "out = net(x)\nout", graphs=1, operations=3),
    case(
        "parameters get no attributes",
        NET,
        "out = net(x)",
        "# plain\n[vars(p) for p in net.parameters()]",
    ),
    case(
        "module defined and used in the cell",
        TORCH,
        "class M(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.w = nn.Parameter(torch.ones(3))\n"
        "    def forward(self, t):\n        return t * self.w + k\nk = 1\nm = M()\nv = m(torch.ones(2, 3))\nv",
        "k = 5\nm(torch.zeros(3)), M.__qualname__, m",
    ),
    case(
        "sequential",
        TORCH,
        "m = nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 1))\no = m(torch.ones(4, 2))\no",
        "m",
    ),
    case(
        "module under no_grad",
        NET,
        "with torch.no_grad():\n    p = net(x)\nq = net(x)\np.requires_grad, q.requires_grad",
    ),
    case(
        "module in eval mode",
        TORCH
        + "\nm = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.BatchNorm1d(3))\nx = torch.randn(4, 3)",
        "a = m(x)\nm = m.eval()\nb = m(x)\na, b",
        "m.training, m[2].running_mean",
    ),
    case(
        "backward",
        TORCH,
        "w = torch.tensor([1.0, 2.0], requires_grad=True)\nl = (w ** 2).sum()\nl.backward()\nw.grad",
        "w.grad, l",
    ),
    case(
        "backward twice accumulates",
        NET,
        "net(x).sum().backward()\ng = net.b.bias.grad.clone()\nnet(x).sum().backward()\nnet.b.bias.grad / g",
    ),
    case(
        "loss over cells",
        NET,
        "pred = net(x)\nloss = F.mse_loss(pred, y)\nloss",
        "loss.backward()\n[p.grad.shape for p in net.parameters()]",
    ),
    case(
        "autograd.grad",
        TORCH,
        "a = torch.tensor(3.0, requires_grad=True)\nb = a ** 3\n(g,) = torch.autograd.grad(b, a, create_graph=True)\n(h,) = torch.autograd.grad(g, a)\nb, g, h",
    ),
    case(
        "requires_grad and detach",
        TORCH,
        "a = torch.ones(2)\na.requires_grad_()\nb = a * 2\nc = b.detach()\nd = a.data\ne = b.requires_grad, c.requires_grad\nb, c, e, d.requires_grad",
    ),
    case(
        "retain grad and hooks",
        TORCH + "\nseen = []",
        "a = torch.ones(2, requires_grad=True)\nb = a * 3\nb.retain_grad()\nh = b.register_hook(lambda g: seen.append(g.clone()))\nb.sum().backward()\ndel h\nb.grad, seen",
    ),
    case(
        "no_grad decorator",
        NET + "\n@torch.no_grad()\ndef infer(t): return net(t)",
        "o = infer(x)\no.requires_grad, torch.is_grad_enabled()",
    ),
    case(
        "grad mode set in the cell",
        TORCH,
        "torch.set_grad_enabled(False)\na = torch.ones(1, requires_grad=True) * 2\ntorch.set_grad_enabled(True)\nb = torch.ones(1, requires_grad=True) * 2\na.requires_grad, b.requires_grad",
    ),
    case(
        "grad mode left off",
        TORCH,
        "p = torch.ones(2, requires_grad=True)\n_g = torch.set_grad_enabled(False)\na = p * 2\na.requires_grad",
        "# plain\n(p * 2).requires_grad",
        "b = p * 2\nb.requires_grad",
        differs="Dynamo makes the set_grad_enabled object after the mode has changed",
    ),
    case(
        "inference mode", NET, "with torch.inference_mode():\n    o = net(x)\no.is_inference(), o"
    ),
    case(
        "sgd step",
        NET + "\nopt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)",
        "opt.zero_grad()\nloss = F.mse_loss(net(x), y)\nloss.backward()\nopt.step()\nloss.item()",
        "net(x)",
    ),
    case(
        "adam over a loop",
        NET + "\nopt = torch.optim.Adam(net.parameters(), lr=0.01)\nlosses = []",
        "for epoch in range(3):\n    opt.zero_grad()\n    loss = F.mse_loss(net(x), y)\n    loss.backward()\n    opt.step()\n    losses.append(loss.item())\nlosses",
        "epoch, net.a.weight",
        differs="traced, Adam keeps its step as a float32 tensor: the last digits differ",
    ),
    case(
        "training function",
        NET
        + "\nopt = torch.optim.SGD(net.parameters(), lr=0.1)\ndef step(a, b):\n    opt.zero_grad()\n    l = F.mse_loss(net(a), b)\n    l.backward()\n    opt.step()\n    return l.detach()",
        "ls = [step(x, y) for _ in range(2)]\nls",
        "step(x, y)",
    ),
    case(
        "training prints",
        NET + "\nopt = torch.optim.SGD(net.parameters(), lr=0.1)",
        "for i in range(2):\n    opt.zero_grad()\n    loss = F.mse_loss(net(x), y)\n    loss.backward()\n    opt.step()\n    print(f'{i}: {loss.item():.4f}')",
    ),
    case(
        "weights changed by hand",
        NET,
        "before = net(x).detach()\nwith torch.no_grad():\n    net.b.bias.add_(1)\n    net.a.weight.mul_(0.5)\nafter = net(x)\nafter - before",
    ),
    case(
        "load_state_dict",
        NET,
        "sd = {k: v * 0 for k, v in net.state_dict().items()}\nr = net.load_state_dict(sd)\nnet(x), r",
    ),
    case(
        "module attribute changed",
        NET,
        "net.extra = 3\nnet.a = nn.Linear(3, 4, bias=False)\no = net(x)\no",
        "net, net.extra",
    ),
    case(
        "forward hook",
        NET + "\nlog = []",
        "h = net.a.register_forward_hook(lambda m, i, o: log.append(tuple(o.shape)))\no = net(x)\nh.remove()\ndel h\nnet(x)\nlog",
    ),
    case(
        "parameters and buffers",
        TORCH,
        "m = nn.BatchNorm1d(2)\no = m(torch.tensor([[1.0, 2.0], [3.0, 5.0]]))\ndict(m.named_buffers())",
        "m.num_batches_tracked, o",
    ),
    case(
        "autocast",
        NET,
        "with torch.autocast('cpu', dtype=torch.bfloat16):\n    o = net(x)\n    m = x @ x.T\no.dtype, m.dtype, torch.is_autocast_enabled('cpu')",
    ),
    case(
        "dropout with a seed",
        NET,
        "torch.manual_seed(3)\na = F.dropout(x)\ntorch.manual_seed(3)\nb = nn.Dropout()(x)\na, b",
        "torch.equal(a, b)",
    ),
    case(
        "custom autograd function",
        TORCH
        + "\nclass Twice(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, t): return t * 2\n    @staticmethod\n    def backward(ctx, g): return g * 2",
        "a = torch.ones(2, requires_grad=True)\nb = Twice.apply(a)\nb.sum().backward()\na.grad, b",
        differs="Dynamo rewrites Function.apply into an operator of its own",
    ),
    case(
        "checkpoint and vmap",
        TORCH + "\nx = torch.ones(3, 2)",
        "v = torch.func.vmap(lambda r: r.sum() * 2)(x)\ng = torch.func.grad(lambda t: (t ** 2).sum())(x)\nv, g",
    ),
    case(
        "data loader",
        TORCH
        + "\nfrom torch.utils.data import DataLoader, TensorDataset\nds = TensorDataset(torch.arange(6.0).view(6, 1), torch.arange(6))",
        "tot = 0\nfor bx, by in DataLoader(ds, batch_size=2, shuffle=True):\n    tot = tot + (bx.squeeze() * by).sum()\ntot, by",
    ),
    case(
        "embedding, attention, normalisation",
        TORCH
        + "\ne = nn.Embedding(10, 8)\nat = nn.MultiheadAttention(8, 2, batch_first=True)\nln = nn.LayerNorm(8)\nids = torch.tensor([[1, 2, 3]])",
        "h = e(ids)\no, w = at(h, h, h)\nz = ln(o + h)\nz.shape, w",
        graphs=1,
    ),
    case(
        "recurrent",
        TORCH + "\nr = nn.GRU(2, 3, batch_first=True)\nx = torch.randn(1, 4, 2)",
        "o, h = r(x)\no, h",
    ),
    case(
        "convolution",
        TORCH
        + "\nc = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())\nx = torch.randn(1, 1, 6, 6)",
        "o = c(x)\no",
        graphs=1,
        operations=4,
    ),
    case(
        "gradient clipping and schedule",
        NET
        + "\nopt = torch.optim.SGD(net.parameters(), lr=1.0)\nsch = torch.optim.lr_scheduler.StepLR(opt, 1)",
        "net(x).pow(2).sum().backward()\nn = nn.utils.clip_grad_norm_(net.parameters(), 0.5)\nopt.step()\nsch.step()\nn, sch.get_last_lr()",
    ),
    case(
        "torch.compile in the cell",
        NET,
        "f = torch.compile(lambda t: t * 2 + 1, backend='eager')\nr = f(x)\nr",
        "compiled = hasattr(f, '_torchdynamo_orig_callable')\ndel f\ncompiled",
    ),
    case(
        "error in forward",
        NET,
        "a = 1\nout = net(torch.ones(2, 9))\nb = 2",
        "a, 'out' in globals(), 'b' in globals()",
        raises="RuntimeError",
    ),
    case(
        "error in an own module's forward",
        TORCH
        + "\nclass Bad(nn.Module):\n    def forward(self, t):\n        u = t + 1\n        raise ValueError(f'bad {tuple(u.shape)}')\nbad = Bad()",
        "v = torch.ones(2)\nw = v * 3\nbad(w)",
        "w",
        raises="ValueError",
    ),
    case(
        "backward twice through one graph",
        TORCH,
        "w = torch.ones(2, requires_grad=True)\nl = (w * w).sum()\nl.backward()\nl.backward()",
        "w.grad",
        raises="RuntimeError",
    ),
    case(
        "backward of a non-scalar",
        TORCH,
        "w = torch.ones(2, requires_grad=True)\nv = w * 2\nv.backward()",
        "v",
        raises="RuntimeError",
    ),
    case(
        "loss error half-way in an epoch",
        NET
        + "\nopt = torch.optim.SGD(net.parameters(), lr=0.1)\ndata = [x, x, torch.ones(5, 2), x]\nseen = []",
        "for n, batch in enumerate(data):\n    opt.zero_grad()\n    loss = net(batch).sum()\n    loss.backward()\n    opt.step()\n    seen.append(n)",
        "n, seen, net(x)",
        raises="RuntimeError",
    ),
    case(
        "cross entropy target out of range",
        TORCH,
        "lo = torch.zeros(1, 3)\nt = torch.tensor([8])\nk = lo + 1\nc = F.cross_entropy(lo, t)",
        "k",
        raises="IndexError",
    ),
]
