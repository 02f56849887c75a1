"""Models of ``transformers`` for images."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.zoo.model import Built, Model, drawn, settle


def _image(size: int, batch: int = 1) -> torch.Tensor:
    return torch.randn(batch, 3, size, size)


def _module(family: str, config: dict[str, Any]) -> Any:
    import transformers

    chosen = getattr(transformers, f"{family}Config")(**config)
    return getattr(transformers, f"{family}Model")(chosen)


def _built(family: str, size: int, **config: Any) -> Built:
    return Built(_module(family, config), (_image(size),), {})


def _plain(name: str, family: str, source: str, tiny: dict[str, Any], **config: Any) -> Model:
    """A model that is pretrained with a usual configuration, but for ``config``."""
    return Model(
        name,
        f"transformers.{family}Model, {source}",
        lambda: _built(family, 224, **config),
        lambda: _built(family, 32, **tiny),
    )


def _settled(family: str, size: int, **config: Any) -> Built:
    """With statistics for batch normalisation."""
    image = _image(size)
    return Built(settle(_module(family, config), _image(size, 4)), (image,), {})


def _drawn(family: str, size: int, **config: Any) -> Built:
    """With drawn weights, and statistics for batch normalisation."""
    built = _built(family, size, **config)
    settle(drawn(built.module), _image(size, 4))
    return built


def _resnet(layer: str, depths: list[int], sizes: list[int]) -> Built:
    return _settled("ResNet", 224, layer_type=layer, depths=depths, hidden_sizes=sizes)


def _tiny_resnet(layer: str) -> Built:
    small = {"depths": [1, 2], "hidden_sizes": [8, 16], "embedding_size": 8}
    return _settled("ResNet", 32, layer_type=layer, **small)


def _mobilenet(size: int, depth: float) -> Built:
    return _settled("MobileNetV2", size, image_size=size, depth_multiplier=depth)


def _convnext(size: int, **config: Any) -> Built:
    # The default scale of 1e-6 would make every block the identity.
    return _built("ConvNext", size, layer_scale_init_value=0.5, **config)


def _efficientnet(size: int, width: float, depth: float, hidden: int) -> Built:
    scale = {"width_coefficient": width, "depth_coefficient": depth, "hidden_dim": hidden}
    return _drawn("EfficientNet", size, **scale)


_TINY_VIT: dict[str, Any] = {
    "image_size": 32,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "patch_size": 8,
}
_TINY_SWIN: dict[str, Any] = {
    "image_size": 32,
    "patch_size": 4,
    "embed_dim": 8,
    "depths": [1, 2],
    "num_heads": [1, 2],
    "window_size": 4,
}
_TINY_SEGFORMER: dict[str, Any] = {
    "num_encoder_blocks": 2,
    "depths": [1, 1],
    "sr_ratios": [2, 1],
    "hidden_sizes": [8, 16],
    "patch_sizes": [7, 3],
    "strides": [4, 2],
    "num_attention_heads": [1, 2],
    "mlp_ratios": [2, 2],
}
_TINY_REGNET: dict[str, Any] = {
    "embedding_size": 8,
    "hidden_sizes": [8, 16],
    "depths": [1, 1],
    "groups_width": 4,
}
_DEIT: dict[str, Any] = {"hidden_size": 384, "num_attention_heads": 6, "intermediate_size": 1536}

MODELS = (
    Model(
        "ResNet-18",
        "transformers.ResNetModel, microsoft/resnet-18 at 224",
        lambda: _resnet("basic", [2, 2, 2, 2], [64, 128, 256, 512]),
        lambda: _tiny_resnet("basic"),
    ),
    Model(
        "ResNet-50",
        "transformers.ResNetModel, microsoft/resnet-50 at 224",
        lambda: _resnet("bottleneck", [3, 4, 6, 3], [256, 512, 1024, 2048]),
        lambda: _tiny_resnet("bottleneck"),
    ),
    Model(
        "MobileNetV2",
        "transformers.MobileNetV2Model, google/mobilenet_v2_1.0_224",
        lambda: _mobilenet(224, 1.0),
        lambda: _mobilenet(64, 0.25),
    ),
    Model(
        "ConvNeXt",
        "transformers.ConvNextModel, facebook/convnext-tiny-224",
        lambda: _convnext(224),
        lambda: _convnext(32, hidden_sizes=[8, 16], depths=[1, 2], num_stages=2),
    ),
    _plain("ViT", "ViT", "google/vit-base-patch16-224", _TINY_VIT),
    _plain("DeiT", "DeiT", "facebook/deit-small-distilled-patch16-224", _TINY_VIT, **_DEIT),
    _plain("Swin", "Swin", "microsoft/swin-tiny-patch4-window7-224", _TINY_SWIN),
    _plain("SegFormer", "Segformer", "nvidia/mit-b0 at 224", _TINY_SEGFORMER),
    _plain("CLIP", "CLIPVision", "openai/clip-vit-base-patch32", _TINY_VIT),
    Model(
        "EfficientNet",
        "transformers.EfficientNetModel, google/efficientnet-b0 at 224",
        lambda: _efficientnet(224, 1.0, 1.0, 1280),
        lambda: _efficientnet(32, 0.25, 0.1, 320),
    ),
    Model(
        "RegNet",
        "transformers.RegNetModel, facebook/regnet-y-040 at 224",
        lambda: _drawn("RegNet", 224),
        lambda: _drawn("RegNet", 32, **_TINY_REGNET),
    ),
)
