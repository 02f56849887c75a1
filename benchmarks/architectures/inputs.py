"""Inputs for a model of transformers, made by the names of its forward's parameters."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_TOKENS = 12
_SECONDS = 4000
"""Samples of a sound."""


class Inputs:
    """Makes the arguments of a forward.

    Parameters
    ----------
    model
        Whose forward it is.
    names
        The parameters to give; one of ``choices``.
    """

    def __init__(self, model: Any, names: tuple[str, ...]) -> None:
        self._configs = list(configurations(model.config))
        self._names = names

    def make(self, batch: int, seed: int) -> dict[str, Any]:
        """Arguments for so many examples.

        Raises
        ------
        KeyError
            Where nothing is known of a parameter.
        """
        draws = torch.Generator().manual_seed(seed)
        return {name: _MAKERS[name](self, batch, draws) for name in self._names}

    def number(self, *names: str, default: int) -> int:
        """The first of these fields that a configuration or a part of it has, as a number."""
        for name in names:
            for config in self._configs:
                value = getattr(config, name, None)
                if isinstance(value, (list, tuple)) and value:
                    value = value[0]
                if isinstance(value, int) and not isinstance(value, bool) and value > 0:
                    return value
        return default

    def sides(self) -> tuple[int, int]:
        """Height and width of an image."""
        for name in ("image_size", "img_size", "input_size", "crop_size"):
            for config in self._configs:
                value = getattr(config, name, None)
                if isinstance(value, dict):
                    value = list(value.values())
                if isinstance(value, (list, tuple)) and len(value) >= 2:
                    return int(value[0]), int(value[1])
                if isinstance(value, int) and value > 0:
                    return value, value
        return 64, 64

    def has(self, name: str) -> bool:
        """Whether a configuration or a part of it has a field."""
        return any(hasattr(config, name) for config in self._configs)


def choices(model: Any) -> Iterator[tuple[str, ...]]:
    """The sets of parameters to try, the likeliest first."""
    signature = inspect.signature(model.forward).parameters
    required = [
        name
        for name, parameter in signature.items()
        if parameter.default is inspect.Parameter.empty
        and parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    ]
    # A forward of any arguments says by its main input what it wants.
    main = model.main_input_name
    first = dict.fromkeys([*([main] if main in signature else []), *required])
    seen = set()
    for more in (
        (),
        ("decoder_input_ids",),
        ("attention_mask",),
        ("input_ids",),
        ("input_ids", "pixel_values"),
        ("pixel_values", "input_ids", "attention_mask"),
        ("input_ids", "input_features"),
        ("input_ids", "input_values"),
        ("input_ids", "attention_mask", "bbox"),
        ("input_ids", "decoder_input_ids", "attention_mask"),
        ("bool_masked_pos",),
        ("input_points",),
        ("padding_mask",),
    ):
        names = tuple(dict.fromkeys([*first, *(name for name in more if name in signature)]))
        if names and names not in seen and all(name in _MAKERS for name in names):
            seen.add(names)
            yield names


def unknown(model: Any) -> list[str]:
    """The parameters that its forward requires, and of which nothing is known here."""
    parameters = inspect.signature(model.forward).parameters.values()
    return [
        parameter.name
        for parameter in parameters
        if parameter.default is inspect.Parameter.empty
        and parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        and parameter.name not in _MAKERS
    ]


def configurations(config: Any) -> Iterator[Any]:
    """A configuration and those of its parts."""
    yield config
    for value in vars(config).values():
        if hasattr(value, "to_dict"):
            yield from configurations(value)


def _ids(inputs: Inputs, batch: int, draws: torch.Generator) -> torch.Tensor:
    words = inputs.number("vocab_size", "text_vocab_size", default=64)
    # Special tokens are the first and the last.
    low, high = (5, max(words // 2, 6)) if words > 10 else (0, words)
    return torch.randint(low, high, (batch, _TOKENS), generator=draws)


def _ones(inputs: Inputs, batch: int, draws: torch.Generator) -> torch.Tensor:  # noqa: ARG001
    return torch.ones(batch, _TOKENS, dtype=torch.int64)


def _normal(*shape: int, draws: torch.Generator) -> torch.Tensor:
    return torch.randn(*shape, generator=draws)


def _pixels(inputs: Inputs, batch: int, draws: torch.Generator) -> torch.Tensor:
    channels = inputs.number("num_channels", "in_channels", "in_chans", default=3)
    height, width = inputs.sides()
    frames = inputs.number("num_frames", default=0)
    if frames:
        return _normal(batch, frames, channels, height, width, draws=draws)
    return _normal(batch, channels, height, width, draws=draws)


def _video(inputs: Inputs, batch: int, draws: torch.Generator) -> torch.Tensor:
    frames = inputs.number("frames_per_clip", "num_frames", default=4)
    height, width = inputs.sides()
    return _normal(batch, frames, 3, height, width, draws=draws)


def _masked(inputs: Inputs, batch: int, draws: torch.Generator) -> torch.Tensor:
    height, width = inputs.sides()
    patch = inputs.number("patch_size", default=16)
    places = (height // patch) * (width // patch)
    return torch.rand(batch, places, generator=draws) > 0.5


def _sound(inputs: Inputs, batch: int, draws: torch.Generator) -> torch.Tensor:
    if inputs.has("max_length") and inputs.has("num_mel_bins"):
        length, bins = (
            inputs.number("max_length", default=64),
            inputs.number("num_mel_bins", default=16),
        )
        return _normal(batch, length, bins, draws=draws)
    return _normal(batch, _SECONDS, draws=draws)


def _channelled(inputs: Inputs, batch: int, draws: torch.Generator) -> torch.Tensor:
    channels = inputs.number("audio_channels", "n_channels", default=1)
    return _normal(batch, channels, _SECONDS, draws=draws)


def _features(inputs: Inputs, batch: int, draws: torch.Generator) -> torch.Tensor:
    bins = inputs.number("num_mel_bins", "n_mels", default=0)
    if inputs.has("max_source_positions") and bins and not inputs.has("input_feat_per_channel"):
        places = inputs.number("max_source_positions", default=64)
        return _normal(batch, bins, 2 * places, draws=draws)
    names = (
        "input_feat_per_channel",
        "feature_projection_input_dim",
        "input_dim",
        "input_feat_size",
    )
    size = inputs.number(*names, "feature_size", default=bins or 80)
    return _normal(batch, 48, size, draws=draws)


def _boxes(inputs: Inputs, batch: int, draws: torch.Generator) -> torch.Tensor:  # noqa: ARG001
    low = torch.randint(0, 40, (batch, _TOKENS, 2), generator=draws)
    return torch.cat([low, low + 20], dim=-1)


def _history(inputs: Inputs, batch: int, draws: torch.Generator) -> torch.Tensor:
    length = inputs.number("context_length", default=32)
    lags = max(getattr(inputs._configs[0], "lags_sequence", None) or [0])  # noqa: SLF001
    if inputs.has("lags_sequence"):
        return _normal(batch, length + lags, draws=draws)
    return _normal(batch, length, inputs.number("num_input_channels", default=1), draws=draws)


def _times(inputs: Inputs, batch: int, draws: torch.Generator) -> torch.Tensor:
    length = _history(inputs, batch, draws).shape[1]
    return _normal(batch, length, inputs.number("num_time_features", default=1), draws=draws)


def _observed(inputs: Inputs, batch: int, draws: torch.Generator) -> torch.Tensor:
    return torch.ones_like(_history(inputs, batch, draws))


def _points(inputs: Inputs, batch: int, draws: torch.Generator) -> torch.Tensor:
    side = inputs.sides()[0]
    return torch.rand(batch, 1, 2, 2, generator=draws) * side


def _codes(inputs: Inputs, batch: int, draws: torch.Generator) -> torch.Tensor:
    books = inputs.number("num_codebooks", "num_quantizers", default=4)
    return torch.randint(0, 32, (batch, books, _TOKENS), generator=draws)


_MAKERS: dict[str, Callable[[Inputs, int, torch.Generator], Any]] = {
    "input_ids": _ids,
    "decoder_input_ids": _ids,
    "attention_mask": _ones,
    "decoder_attention_mask": _ones,
    "padding_mask": lambda inputs, batch, draws: torch.ones(batch, _SECONDS, dtype=torch.bool),  # noqa: ARG005
    "pixel_values": _pixels,
    "pixel_values_videos": _video,
    "bool_masked_pos": _masked,
    "input_values": lambda i, b, d: (
        _channelled(i, b, d) if i.has("audio_channels") else _sound(i, b, d)
    ),
    "input_features": _features,
    "bbox": _boxes,
    "past_values": _history,
    "past_time_features": _times,
    "past_observed_mask": _observed,
    "input_points": _points,
    "audio_codes": _codes,
    "spectrogram": lambda i, b, d: _normal(b, 16, i.number("model_in_dim", default=80), draws=d),
    "inputs_embeds": lambda i, b, d: _normal(
        b, _TOKENS, i.number("hidden_size", "d_model", default=64), draws=d
    ),
    "hidden_states": lambda i, b, d: _normal(
        b, _TOKENS, i.number("hidden_size", "d_model", default=64), draws=d
    ),
}
