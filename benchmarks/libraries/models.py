"""The models: of each library one or two, small, with random weights, and their inputs."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import nn

if TYPE_CHECKING:
    from collections.abc import Callable


class Model(NamedTuple):
    """A model of a library: its name on PyPI, what makes it, what makes the inputs of a batch."""

    library: str
    build: Callable[[], Callable[..., Any]]
    inputs: Callable[[int], tuple[torch.Tensor, ...]]


class Run(nn.Module):
    """Modules, and a function of them and of the inputs: a ``forward`` in one expression."""

    def __init__(self, forward: Callable[..., Any], *parts: nn.Module) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)
        self._forward = forward

    def forward(self, *inputs: torch.Tensor) -> Any:
        """What the function makes of the modules and of the inputs."""
        return self._forward(*self.parts, *inputs)


def _random(*shape: int, times: int = 1, tensors: int = 1) -> Callable[[int], Any]:
    return lambda batch: tuple(torch.rand(times * batch, *shape) * 2 - 1 for _ in range(tensors))


def _graph(batch: int) -> tuple[torch.Tensor, ...]:
    return torch.randn(50 * batch, 16), torch.randint(0, 50 * batch, (2, 300 * batch))


_table, _sequence = _random(12, times=16), _random(32, 32)


def _of(module: str, name: str, *args: Any, **options: Any) -> Callable[[], Callable[..., Any]]:
    """What makes an object of a class of a library, which is imported then."""
    return lambda: getattr(import_module(module), name)(*args, **options)


def _function(module: str, name: str, *args: Any) -> Callable[[], Callable[..., Any]]:
    """What makes a function of one tensor of a library's function."""
    return lambda: lambda given: getattr(import_module(module), name)(given, *args)


def _perceptron(outputs: int) -> nn.Sequential:
    return nn.Sequential(nn.Linear(12, 32), nn.Tanh(), nn.Linear(32, outputs))


def _gcn() -> nn.Module:
    layers = import_module("torch_geometric.nn")
    convolutions = layers.GCNConv(16, 32), layers.GATConv(32, 8)
    return Run(lambda a, b, x, edges: b(a(x, edges).relu(), edges).log_softmax(-1), *convolutions)


def _colours() -> Callable[..., Any]:
    color, turned = import_module("kornia.color"), import_module("kornia.geometry").rotate
    return lambda im: color.rgb_to_lab(turned(im.abs(), im.mean((1, 2, 3)) * 60))


def _decoder() -> Any:
    x = import_module("x_transformers")
    layers = x.Decoder(dim=32, depth=2, heads=2, rotary_pos_emb=True, use_rmsnorm=True, ff_glu=True)
    return x.TransformerWrapper(num_tokens=100, max_seq_len=64, attn_layers=layers)


def _posterior() -> nn.Module:
    kernels = import_module("gpytorch.kernels")
    known, seen = torch.randn(20, 12), torch.randn(20)

    def forward(kernel: Any, x: torch.Tensor) -> Any:
        near = kernel(known.to(x)).to_dense() + 0.1 * torch.eye(20).to(x)
        return kernel(x, known.to(x)).to_dense() @ torch.linalg.solve(near, seen.to(x))

    return Run(forward, kernels.ScaleKernel(kernels.RBFKernel()) + kernels.MaternKernel(nu=1.5))


def _solver(method: str) -> nn.Module:
    solve, times = import_module("torchdiffeq").odeint, torch.linspace(0, 1, 5)
    return Run(
        lambda net, y: solve(lambda _, at: net(at), y, times.to(y), method=method), _perceptron(12)
    )


def _flow() -> nn.Module:
    flow = import_module("zuko").flows.NSF(12, transforms=2, hidden_features=(32,))
    return Run(lambda made, x: made().log_prob(x), flow)


def _affine() -> nn.Module:
    nf = import_module("normflows")
    masks = [torch.tensor([1.0, 0.0] * 6), torch.tensor([0.0, 1.0] * 6)]
    steps = [nf.flows.MaskedAffineFlow(mask, _perceptron(12), _perceptron(12)) for mask in masks]
    flow = nf.NormalizingFlow(nf.distributions.base.DiagGaussian(12), steps)
    return Run(lambda made, x: made.log_prob(x), flow)


def _spikes() -> nn.Module:
    def forward(net: Any, leaky: Any, x: torch.Tensor) -> torch.Tensor:
        charges = [leaky.init_leaky()]
        for _ in range(4):
            charges.append(leaky(net(x), charges[-1])[1])
        return torch.stack(charges[1:])

    return Run(forward, _perceptron(6), import_module("snntorch").Leaky(beta=0.9))


def _equivariant() -> nn.Module:
    o3 = import_module("e3nn.o3")
    return Run(
        lambda mix, x: mix(o3.spherical_harmonics([0, 1, 2], x.reshape(-1, 3), normalize=True)),
        o3.Linear("0e + 1o + 2e", "4x0e + 2x1o + 2x2e"),
    )


def _harmonics() -> nn.Module:
    sphere = import_module("torch_harmonics")
    transforms = sphere.RealSHT(16, 32), sphere.InverseRealSHT(16, 32)
    return Run(lambda there, back, x: back(there(x) * 0.5), *transforms)


def _tokens() -> nn.Module:
    net = import_module("rtdl_revisiting_models").FTTransformer
    options = {**net.get_default_kwargs(1), "d_block": 32, "attention_n_heads": 2}
    del options["_is_default"]
    made = net(n_cont_features=12, cat_cardinalities=[], d_out=3, **options)
    return Run(lambda net, x: net(x, None), made)


def _attributed() -> nn.Module:
    explain = import_module("captum.attr").IntegratedGradients
    return Run(lambda net, x: explain(net).attribute(x, target=1, n_steps=8), _perceptron(3))


def _contrast() -> Callable[..., Any]:
    loss = import_module("pytorch_metric_learning.losses").NTXentLoss(temperature=0.2)
    return lambda x: loss(x, torch.arange(len(x)) % 4)


def _efficient() -> Any:
    net = import_module("efficientnet_pytorch").EfficientNet
    return net.from_name("efficientnet-b0", num_classes=10, image_size=32)


MODELS = {
    "GCN and GAT": Model("torch-geometric", _gcn, _graph),
    "GIN": Model("torch-geometric", _of("torch_geometric.nn", "GIN", 16, 32, 2, 8), _graph),
    "UNet": Model(
        "monai",
        _of("monai.networks.nets", "UNet", 3, 1, 2, (4, 8, 16), (2, 2)),
        _random(1, 16, 16, 16),
    ),
    "Gaussian blur": Model(
        "kornia",
        _function("kornia.filters", "gaussian_blur2d", (5, 5), (1.5, 1.5)),
        _random(3, 32, 32),
    ),
    "colours of a turned image": Model("kornia", _colours, _random(3, 32, 32)),
    "decoder": Model(
        "x-transformers", _decoder, lambda batch: (torch.randint(0, 100, (batch, 24)),)
    ),
    "posterior mean": Model("gpytorch", _posterior, _table),
    "entmax 1.5": Model("entmax", _function("entmax", "entmax15"), _table),
    "sparsemax by bisection": Model("entmax", _function("entmax", "sparsemax_bisect"), _table),
    "rk4": Model("torchdiffeq", lambda: _solver("rk4"), _table),
    "dopri5": Model("torchdiffeq", lambda: _solver("dopri5"), _table),
    "Performer": Model(
        "performer-pytorch",
        _of("performer_pytorch", "Performer", 32, 2, 2, 16, auto_check_redraw=False),
        _sequence,
    ),
    "Linformer": Model("linformer", _of("linformer", "Linformer", 32, 32, 2, k=8), _sequence),
    "Conformer": Model("conformer", _of("conformer", "Conformer", 32, depth=2, heads=2), _sequence),
    "vector quantizer": Model(
        "vector-quantize-pytorch",
        _of("vector_quantize_pytorch", "VectorQuantize", 32, 64),
        _sequence,
    ),
    "TabNet": Model(
        "pytorch-tabnet",
        _of("pytorch_tabnet.tab_network", "TabNet", 12, 3, group_attention_matrix=torch.eye(12)),
        _table,
    ),
    "FT-Transformer": Model("rtdl_revisiting_models", _tokens, _table),
    "spline flow": Model("zuko", _flow, _table),
    "masked affine flow": Model("normflows", _affine, _table),
    "continuous-time RNN": Model("ncps", _of("ncps.torch", "CfC", 32, 16), _random(8, 32)),
    "spiking neurons": Model("snntorch", _spikes, _table),
    "mel spectrogram": Model(
        "nnAudio",
        _of("nnAudio.features", "MelSpectrogram", n_fft=256, n_mels=20, verbose=False),
        _random(4096),
    ),
    "equivariant features": Model("e3nn", _equivariant, _table),
    "harmonic transform": Model("torch-harmonics", _harmonics, _random(16, 32)),
    "EfficientNet": Model("efficientnet_pytorch", _efficient, _random(3, 32, 32)),
    "integrated gradients": Model("captum", _attributed, _table),
    "NT-Xent loss": Model("pytorch-metric-learning", _contrast, _table),
    "spectral loss": Model(
        "auraloss", _of("auraloss.freq", "STFTLoss", 256, 64, 256), _random(1, 4096, tensors=2)
    ),
}
"""By name, in the page's order."""
