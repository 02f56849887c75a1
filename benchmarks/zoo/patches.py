"""More image models of ``transformers``: on patches, in windows, and of scaled convolutions."""

from __future__ import annotations

from typing import Any

import torch

from benchmarks.zoo.model import Built, Model, drawn, mean_square, settle
from benchmarks.zoo.vision import TINY_VIT


def _built(family: str, size: int, *, normed: bool = False, **config: Any) -> Built:
    import transformers

    module = getattr(transformers, f"{family}Model")(
        getattr(transformers, f"{family}Config")(**config)
    )
    image = torch.randn(1, 3, size, size)
    if normed:
        settle(drawn(module), torch.randn(4, 3, size, size))
    return Built(module, (image,), {})


def _clip(size: int, **config: Any) -> Built:
    from transformers import CLIPVisionConfig, CLIPVisionModel

    chosen = CLIPVisionConfig(image_size=size, **config)
    return Built(CLIPVisionModel(chosen), (torch.randn(1, 3, size, size),), {})


MODELS = (
    Model(
        "DeiT",
        "transformers.DeiTModel, facebook/deit-small-distilled-patch16-224",
        lambda: _built("DeiT", 224, hidden_size=384, num_attention_heads=6, intermediate_size=1536),
        lambda: _built("DeiT", 32, image_size=32, **TINY_VIT),
        mean_square,
    ),
    Model(
        "Swin",
        "transformers.SwinModel, microsoft/swin-tiny-patch4-window7-224",
        lambda: _built("Swin", 224),
        lambda: _built(
            "Swin",
            32,
            image_size=32,
            patch_size=4,
            embed_dim=8,
            depths=[1, 2],
            num_heads=[1, 2],
            window_size=4,
        ),
        mean_square,
    ),
    Model(
        "SegFormer",
        "transformers.SegformerModel, nvidia/mit-b0 at 224",
        lambda: _built("Segformer", 224),
        lambda: _built(
            "Segformer",
            32,
            num_encoder_blocks=2,
            depths=[1, 1],
            sr_ratios=[2, 1],
            hidden_sizes=[8, 16],
            patch_sizes=[7, 3],
            strides=[4, 2],
            num_attention_heads=[1, 2],
            mlp_ratios=[2, 2],
        ),
        mean_square,
    ),
    Model(
        "CLIP",
        "transformers.CLIPVisionModel, openai/clip-vit-base-patch32",
        lambda: _clip(224),
        lambda: _clip(32, **TINY_VIT),
        mean_square,
    ),
    Model(
        "EfficientNet",
        "transformers.EfficientNetModel, google/efficientnet-b0 at 224",
        lambda: _built(
            "EfficientNet",
            224,
            normed=True,
            width_coefficient=1.0,
            depth_coefficient=1.0,
            hidden_dim=1280,
        ),
        lambda: _built(
            "EfficientNet",
            32,
            normed=True,
            width_coefficient=0.25,
            depth_coefficient=0.1,
            hidden_dim=320,
        ),
        mean_square,
    ),
    Model(
        "RegNet",
        "transformers.RegNetModel, facebook/regnet-y-040 at 224",
        lambda: _built("RegNet", 224, normed=True),
        lambda: _built(
            "RegNet",
            32,
            normed=True,
            embedding_size=8,
            hidden_sizes=[8, 16],
            depths=[1, 1],
            groups_width=4,
        ),
        mean_square,
    ),
)
