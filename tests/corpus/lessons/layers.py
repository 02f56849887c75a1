"""Cells of lessons about layers: lazy ones, parameters, hooks, training by hand."""

from __future__ import annotations

from tests.corpus.case import Case, case, cases

NN = "# plain\nimport torch\nfrom torch import nn\nx = torch.arange(6.).reshape(2, 3)"
NET = NN + "\nnet = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))"

CASES: list[Case] = [
    *cases(
        NN,
        """
## lazy layer is called once more
net = nn.LazyLinear(2)
print(net.weight)
y = net(x)
print(net.weight.shape, type(net).__name__)
# %%
y2 = net(x)
print(y2.shape)
## lazy convolution, layer by layer
net = nn.Sequential(nn.LazyConv2d(2, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(2))
image = torch.ones(1, 1, 5, 5)
for layer in net:
    image = layer(image)
    print(layer.__class__.__name__, 'output shape:', tuple(image.shape))
## lazy layer and dropout
torch.manual_seed(3)
net = nn.Sequential(nn.LazyLinear(8), nn.Dropout(0.5))
y = net(x)
# %%
y2 = net(x)
net.eval()
y3 = net(x)
## lazy layer of another width -> RuntimeError
net = nn.LazyLinear(2)
y = net(x)
z = net(torch.ones(2, 5))
## lazy layer in a class
class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.noise = torch.rand(1)
        self.net = nn.Sequential(nn.LazyLinear(width), nn.Tanh())
    def forward(self, x):
        return self.net(x) + self.noise
block = Block(3)
y = block(x)
# %%
z = block(x)
names = [name for name, _ in block.named_parameters()]
""",
    ),
    case(
        "weights changed by hand",
        NET,
        """
        net[0].weight.data[:] += 1
        net[0].weight.data[0, 0] = 42
        y = net(x)
        net[0].weight.data[0]
        """,
        inductor=True,
    ),
    case(
        "layers that share weights",
        NN,
        """
        shared = nn.Linear(3, 3)
        net = nn.Sequential(shared, nn.ReLU(), shared)
        y = net(x)
        net[0].weight.data[0, 0] = 100
        same = bool((net[0].weight == net[2].weight).all())
        z = net(x)
        """,
    ),
    case(
        "a layer is frozen",
        NET,
        """
        for parameter in net[0].parameters():
            parameter.requires_grad = False
        net(x).sum().backward()
        grads = [p.grad is None for p in net.parameters()]
        """,
        inductor=True,
    ),
    case(
        "network built in a loop",
        NN,
        """
        net = nn.Sequential()
        for i in range(3):
            net.add_module(f'block {i}', nn.Linear(3, 3))
        y = net(x)
        print(net)
        """,
    ),
    case(
        "hook that prints",
        NET,
        """
        def show(module, inputs, output):
            print(type(module).__name__, tuple(output.shape))
        handles = [layer.register_forward_hook(show) for layer in net]
        y = net(x)
        for handle in handles:
            handle.remove()
        y = net(x)
        del handles, handle
        """,
    ),
    case(
        "gradient descent by hand",
        NN,
        """
        w = torch.zeros(3, 1, requires_grad=True)
        target = x.sum(1, keepdim=True)
        losses = []
        for epoch in range(3):
            loss = ((x @ w - target) ** 2).mean()
            loss.backward()
            with torch.no_grad():
                w -= 0.0625 * w.grad
                w.grad.zero_()
            losses.append(round(loss.item(), 3))
            print(f'epoch {epoch + 1}, loss {losses[-1]:.3f}')
        """,
        inductor=True,
    ),
    case(
        "optimizer in a function",
        NET,
        """
        def train(net, epochs):
            optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
            for _ in range(epochs):
                optimizer.zero_grad()
                loss = net(x).square().mean()
                loss.backward()
                optimizer.step()
            return loss.detach()
        loss = train(net, 3)
        """,
    ),
    case(
        "saved and loaded",
        NET,
        """
        import io
        file = io.BytesIO()
        torch.save(net.state_dict(), file)
        file.seek(0)
        clone = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
        keys = clone.load_state_dict(torch.load(file))
        same = torch.equal(clone(x), net(x))
        del file, keys
        """,
    ),
    *cases(
        NN,
        """
## module list with names counted [inductor]
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(2))
    def forward(self, x):
        for i, layer in enumerate(self.layers):
            x = layer(x) * (i + 1)
        return x
net = Net()
y = net(x)
total = sum(p.numel() for p in net.parameters())
# %%
net.layers.append(nn.Linear(3, 1))
y = net(x)
## attention weights looked at [inductor]
def attend(q, k, v):
    scores = q @ k.transpose(0, 1) / k.shape[1] ** 0.5
    weights = torch.softmax(scores, dim=-1)
    return weights @ v, weights
out, weights = attend(x, x, x)
print(weights.sum(1))
## training and evaluation mode
net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
a = net(x)
net.eval()
b = net(x)
modes = [m.training for m in net.modules()]
""",
    ),
]
