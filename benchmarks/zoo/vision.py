"""Image models of ``transformers``."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.zoo.model import Built, Model, mean_square, settle


def _image(size: int, batch: int = 1) -> torch.Tensor:
    return torch.randn(batch, 3, size, size)


def _resnet(size: int, **config: Any) -> Built:
    from transformers import ResNetConfig, ResNetModel

    image = _image(size)
    return Built(settle(ResNetModel(ResNetConfig(**config)), _image(size, 4)), (image,), {})


def _resnet18() -> Built:
    sizes = [64, 128, 256, 512]
    return _resnet(224, layer_type="basic", depths=[2, 2, 2, 2], hidden_sizes=sizes)


def _resnet50() -> Built:
    sizes = [256, 512, 1024, 2048]
    return _resnet(224, layer_type="bottleneck", depths=[3, 4, 6, 3], hidden_sizes=sizes)


def _tiny_resnet(layer: str) -> Built:
    return _resnet(32, layer_type=layer, depths=[1, 2], hidden_sizes=[8, 16], embedding_size=8)


def _mobilenet(size: int, depth: float, **config: Any) -> Built:
    from transformers import MobileNetV2Config, MobileNetV2Model

    image = _image(size)
    chosen = MobileNetV2Config(image_size=size, depth_multiplier=depth, **config)
    return Built(settle(MobileNetV2Model(chosen), _image(size, 4)), (image,), {})


def _convnext(size: int, **config: Any) -> Built:
    from transformers import ConvNextConfig, ConvNextModel

    # The default scale of 1e-6 would make every block the identity.
    chosen = ConvNextConfig(layer_scale_init_value=0.5, **config)
    return Built(ConvNextModel(chosen), (_image(size),), {})


def _vit(size: int, **config: Any) -> Built:
    from transformers import ViTConfig, ViTModel

    return Built(ViTModel(ViTConfig(image_size=size, **config)), (_image(size),), {})


TINY_VIT: dict[str, Any] = {
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "patch_size": 8,
}

MODELS = (
    Model(
        "ResNet-18",
        "transformers.ResNetModel, microsoft/resnet-18 at 224",
        _resnet18,
        lambda: _tiny_resnet("basic"),
        mean_square,
    ),
    Model(
        "ResNet-50",
        "transformers.ResNetModel, microsoft/resnet-50 at 224",
        _resnet50,
        lambda: _tiny_resnet("bottleneck"),
        mean_square,
    ),
    Model(
        "MobileNetV2",
        "transformers.MobileNetV2Model, google/mobilenet_v2_1.0_224",
        lambda: _mobilenet(224, 1.0),
        lambda: _mobilenet(64, 0.25),
        mean_square,
    ),
    Model(
        "ConvNeXt",
        "transformers.ConvNextModel, facebook/convnext-tiny-224",
        lambda: _convnext(224),
        lambda: _convnext(32, hidden_sizes=[8, 16], depths=[1, 2], num_stages=2),
        mean_square,
    ),
    Model(
        "ViT",
        "transformers.ViTModel, google/vit-base-patch16-224",
        lambda: _vit(224),
        lambda: _vit(32, **TINY_VIT),
        mean_square,
    ),
)
