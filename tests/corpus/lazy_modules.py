"""Modules that get their parameters at their first call, beside random numbers of the cell's."""

from __future__ import annotations

from tests.corpus.case import Case, case

TORCH = (
    "# plain\nimport torch\nfrom torch import nn\nimport torch.nn.functional as F\n"
    "torch.manual_seed(0)\ntorch.utils.hooks.RemovableHandle.next_id = 0"
)
NET = TORCH + (
    "\nclass Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n"
    "        self.a = nn.LazyLinear(4)\n        self.norm = nn.LazyBatchNorm1d()\n"
    "        self.b = nn.LazyLinear(2)\n"
    "    def forward(self, t):\n        t = F.dropout(t)\n        return self.b(self.norm(self.a(t)))\n"
    "net = Net()"
)
SEQUENTIAL = TORCH + "\nnet = nn.Sequential(nn.LazyLinear(4), nn.Dropout(), nn.LazyLinear(1))"
STATE = "# plain\nnet.state_dict(), [type(m) for m in net.modules()], torch.rand(1)"

CASES: list[Case] = [
    case(
        "a lazy layer after random numbers",
        TORCH + "\nnet = nn.LazyLinear(4)",
        "x = torch.randn(3, 5)\ny = net(x)\nz = torch.randn(2)",
        "x = torch.randn(3, 5)\ny = net(x)\nz = torch.randn(2)",
        STATE,
        graphs=1,
    ),
    case(
        "a lazy layer made in the cell",
        TORCH,
        "net = nn.LazyLinear(4)\nx = torch.randn(3, 5)\ny = net(x)\nnet",
        "net = nn.LazyLinear(4)\nx = torch.randn(3, 5)\ny = net(x)\nnet",
        STATE,
    ),
    case(
        "lazy layers in a Sequential",
        SEQUENTIAL,
        "x = torch.randn(3, 5)\ny = net(x)",
        "y = net(x + torch.rand(1))",
        STATE,
        graphs=1,
    ),
    case(
        "a network of lazy layers by way of a function",
        NET,
        "def noisy(m, t):\n    return m(t + torch.randn(5))\nx = torch.randn(3, 5)\ny = noisy(net, x)",
        "y = noisy(net, x)",
        STATE,
        graphs=1,
    ),
    case(
        "lazy convolutions",
        TORCH + "\nnet = nn.Sequential(nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.ReLU(), "
        "nn.LazyConvTranspose2d(2, 2), nn.Flatten(), nn.LazyLinear(2))",
        "x = torch.randn(2, 3, 6, 6)\ny = net(x)",
        "y = net(x)",
        STATE,
        graphs=1,
    ),
    case(
        "lazy norms without a weight",
        TORCH + "\nnet = nn.LazyInstanceNorm2d(affine=False, track_running_stats=True)",
        "y = net(torch.randn(2, 3, 6, 6))",
        "y = net(torch.randn(2, 3, 6, 6))",
        STATE,
        graphs=1,
    ),
    case(
        "lazy layers in a loop over a ModuleList",
        TORCH + "\nnet = nn.ModuleList([nn.LazyLinear(5) for _ in range(3)])",
        "x = torch.randn(2, 4)\nfor layer in net:\n    x = layer(F.dropout(x)).relu()",
        "x = torch.randn(2, 4)\nfor layer in net:\n    x = layer(F.dropout(x)).relu()",
        STATE,
    ),
    case(
        "a lazy network in a training loop",
        SEQUENTIAL,
        "losses = []\nfor step in range(3):\n    x = torch.randn(3, 5)\n    net(x).sum().backward()\n"
        "    losses.append(sum(p.grad.sum().item() for p in net.parameters()))\nlosses",
        "for step in range(3):\n    net(torch.randn(3, 5)).sum().backward()",
        STATE,
    ),
    case(
        "a lazy network called once before its training loop",
        SEQUENTIAL,
        "x = torch.randn(3, 5)\nnet(x)\nopt = torch.optim.SGD(net.parameters(), 0.1)\n"
        "for step in range(3):\n    opt.zero_grad()\n    net(x).square().mean().backward()\n    opt.step()",
        STATE,
    ),
    case(
        "a lazy network called and then initialised by apply",
        SEQUENTIAL,
        "def init(m):\n    if type(m) is nn.Linear:\n        nn.init.xavier_uniform_(m.weight)\n"
        "x = torch.randn(3, 5)\nnet(x)\nnet.apply(init)\ny = net(x)",
        STATE,
    ),
    case(
        "lazy layers that are not called",
        SEQUENTIAL,
        "x = torch.randn(3, 5) * 2\nn = [is_lazy for is_lazy in map(nn.parameter.is_lazy, net.parameters())]",
        "net",
    ),
    case(
        "a lazy layer by map, and one in a list",
        TORCH + "\nnet = nn.LazyLinear(4)\nothers = [nn.LazyLinear(2)]",
        "ys = list(map(net, [torch.randn(3, 5), torch.randn(3, 5)]))\nzs = [m(ys[0]) for m in others]",
        STATE,
    ),
    case(
        "a lazy layer under a checkpoint",
        TORCH + "\nfrom torch.utils.checkpoint import checkpoint\nnet = nn.LazyLinear(4)",
        "y = checkpoint(net, torch.randn(3, 5), use_reentrant=False)",
        STATE,
    ),
    case(
        "a lazy layer with a hook that draws",
        TORCH
        + "\nseen = []\nnet = nn.LazyLinear(4)\n"
        + "hook = net.register_forward_pre_hook(lambda m, a: seen.append(torch.rand(1)))",
        "y = net(torch.randn(3, 5))",
        STATE,
    ),
    case(
        "a lazy layer that refuses its input",
        TORCH + "\nnet = nn.LazyConv2d(4, 3)",
        "x = torch.randn(5)\ny = net(x)",
        "net, torch.rand(1)",
        raises="RuntimeError",
    ),
    case(
        "a lazy layer that loads its weights",
        TORCH + "\nnet = nn.LazyLinear(4)\nnet.load_state_dict(nn.Linear(5, 4).state_dict())",
        "y = net(torch.randn(3, 5))",
        STATE,
    ),
    case(
        "a lazy module of one's own",
        TORCH
        + "\nclass Scale(nn.modules.lazy.LazyModuleMixin, nn.Module):\n    def __init__(self):\n"
        "        super().__init__()\n        self.w = nn.UninitializedParameter()\n"
        "    def initialize_parameters(self, t):\n        if self.has_uninitialized_params():\n"
        "            with torch.no_grad():\n                self.w.materialize(t.shape[-1:])\n"
        "                self.w.copy_(torch.rand(t.shape[-1]))\n        log.append('initialised')\n"
        "    def forward(self, t):\n        return t * self.w\nlog = []\nnet = Scale()",
        "x = torch.randn(3, 5)\nlog.append('called')\ny = net(x)",
        "y = net(x)",
        STATE + ", log",
    ),
]
