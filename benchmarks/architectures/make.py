"""Small models of transformers' architectures, without weights of anybody's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from benchmarks.architectures.inputs import Inputs, choices, configurations, unknown
from benchmarks.architectures.shrink import RECIPES, Recipe, small
from benchmarks.stored_row import StoredRow
from benchmarks.zoo.model import SEED, tensors

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST_PARAMETERS = 40_000_000
"""Of a model that counts as small."""

_TASKS = (
    "SPEECH_SEQ_2_SEQ",
    "SEQ_TO_SEQ_CAUSAL_LM",
    "MASKED_LM",
    "CAUSAL_LM",
    "UNIVERSAL_SEGMENTATION",
    "OBJECT_DETECTION",
    "SEMANTIC_SEGMENTATION",
    "DEPTH_ESTIMATION",
    "IMAGE_CLASSIFICATION",
    "VIDEO_CLASSIFICATION",
    "CTC",
    "AUDIO_CLASSIFICATION",
    "TIME_SERIES_PREDICTION",
    "IMAGE_TEXT_TO_TEXT",
    "MULTIMODAL_LM",
    "PRETRAINING",
)
"""A model with the head of the first of these that it has, or without a head."""


class TooLargeError(ValueError):
    """A model has more parameters than a small one."""


@dataclass(frozen=True)
class Made(StoredRow):
    """How a small model of an architecture is made, or why none could be.

    ``names`` are the parameters of its forward that get a value.
    """

    architecture: str
    model: str = ""
    recipe: str = ""
    names: tuple[str, ...] = ()
    parameters: int = 0
    error: str = ""


def architectures() -> list[str]:
    """Every architecture that transformers makes a model of by its name."""
    from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

    return sorted(MODEL_MAPPING_NAMES)


def search(architecture: str) -> Made:
    """Find out how to make an architecture small: try heads, sizes and inputs."""
    from transformers import CONFIG_MAPPING

    errors: list[str] = []
    try:
        whole = CONFIG_MAPPING[architecture]().to_dict()
    except Exception as raised:  # noqa: BLE001 - whatever it is, it is the reason
        return Made(architecture, error=f"Its configuration: {_said(raised)}")
    for name in _classes(architecture):
        for recipe, model in _sizes(architecture, name, whole, errors):
            for names in choices(model):
                try:
                    _try(model, names)
                except Exception as raised:  # noqa: BLE001
                    errors.append(f"{name}({', '.join(names)}): {_said(raised)}")
                    continue
                count = sum(parameter.numel() for parameter in model.parameters())
                return Made(architecture, name, recipe.name, names, count)
    # What the smallest form says: larger ones may only say that they are large.
    return Made(architecture, error=errors[0])


def _sizes(
    architecture: str, name: str, whole: dict[str, Any], errors: list[str]
) -> Iterator[tuple[Recipe, torch.nn.Module]]:
    """Models of one class, the smallest first; why others could not be made goes to ``errors``."""
    large: list[Recipe] = []
    for recipe in RECIPES:
        if any(recipe.is_larger(other) for other in large):
            continue
        try:
            model = build(architecture, name, recipe, whole)
        except Exception as raised:  # noqa: BLE001
            errors.append(f"{name}: {_said(raised)}")
            if isinstance(raised, ImportError):
                return
            if isinstance(raised, TooLargeError):
                large.append(recipe)
            continue
        if unknown(model):
            errors.append(f"{name} requires {', '.join(unknown(model))}.")
            return
        yield recipe, model


def build(
    architecture: str, name: str, recipe: Recipe, whole: dict[str, Any] | None = None
) -> torch.nn.Module:
    """A small model with random weights, in eval mode, the same one each time.

    Parameters
    ----------
    architecture
        As transformers names its configuration.
    name
        The model's class.
    recipe
        How small.
    whole
        The usual configuration, where it is known.
    """
    import transformers
    from transformers import CONFIG_MAPPING

    kind = CONFIG_MAPPING[architecture]
    fields = small(whole or kind().to_dict(), recipe)
    config = kind.from_dict(fields)
    for part in configurations(config):
        if hasattr(part, "use_cache"):
            part.use_cache = False
    model_class = getattr(transformers, name)
    with torch.device("meta"):
        count = sum(p.numel() for p in model_class(config).parameters())
    if count > MOST_PARAMETERS:
        message = f"{count:,} parameters are not small."
        raise TooLargeError(message)
    torch.manual_seed(SEED)
    model: torch.nn.Module = model_class(config).eval()
    for weight in model.parameters():
        # A router of zeros gives all experts the same score, and any of them may be taken.
        if weight.ndim > 1 and weight.is_floating_point() and not weight.any():
            torch.nn.init.normal_(weight, std=0.02)
    return model


def results(model: Any, given: dict[str, Any]) -> list[torch.Tensor]:
    """The tensors that a call gives, with the same random numbers each time."""
    torch.manual_seed(SEED)
    output = model(**given)
    leaves = tensors(output)
    return [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]


def _try(model: torch.nn.Module, names: tuple[str, ...]) -> None:
    inputs = Inputs(model, names)
    with torch.no_grad():
        for batch in (2, 3):
            found = results(model, inputs.make(batch, seed=batch))
            floating = [tensor for tensor in found if tensor.is_floating_point() and tensor.numel()]
            if not floating:
                message = "It gives no numbers."
                raise ValueError(message)
            if not all(tensor.isfinite().any() for tensor in floating):
                message = "It gives no finite numbers."
                raise ValueError(message)


def _classes(architecture: str) -> Iterator[str]:
    from transformers.models.auto import modeling_auto

    seen = set()
    for task in _TASKS:
        mappings = [f"MODEL_FOR_{task}_MAPPING_NAMES", f"MODEL_FOR_IMAGE_{task}_MAPPING_NAMES"]
        for mapping in mappings:
            name = getattr(modeling_auto, mapping, {}).get(architecture)
            if isinstance(name, str) and name not in seen:
                seen.add(name)
                yield name
    base: Any = modeling_auto.MODEL_MAPPING_NAMES[architecture]
    for name in [base] if isinstance(base, str) else base:
        if name not in seen:
            yield name


def _said(error: BaseException) -> str:
    lines = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {lines[0][:160]}"
