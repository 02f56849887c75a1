"""Inputs for a model of transformers, made by the names of its forward's parameters."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Iterator

_TOKENS = 12
_SECONDS = 4000
"""Samples of a sound."""


_MAKE = "_make_"
"""Starts the names of the methods that make a parameter's value."""


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
        self._batch = 0
        self._draws = torch.Generator()

    def make(self, batch: int, seed: int) -> dict[str, Any]:
        """Arguments for so many examples."""
        self._batch, self._draws = batch, torch.Generator().manual_seed(seed)
        return {name: getattr(self, _MAKE + name)() for name in self._names}

    def _make_input_ids(self) -> torch.Tensor:
        words = self._number("vocab_size", "text_vocab_size", default=64)
        # Special tokens are the first and the last.
        low, high = (5, max(words // 2, 6)) if words > 10 else (0, words)
        return self._integers(low, high, _TOKENS)

    _make_decoder_input_ids = _make_input_ids

    def _make_attention_mask(self) -> torch.Tensor:
        return torch.ones(self._batch, _TOKENS, dtype=torch.int64)

    _make_decoder_attention_mask = _make_attention_mask

    def _make_padding_mask(self) -> torch.Tensor:
        return torch.ones(self._batch, _SECONDS, dtype=torch.bool)

    def _make_pixel_values(self) -> torch.Tensor:
        channels = self._number("num_channels", "in_channels", "in_chans", default=3)
        frames = self._number("num_frames", default=0)
        return self._normal(*([frames] if frames else []), channels, *self._sides())

    def _make_pixel_values_videos(self) -> torch.Tensor:
        frames = self._number("frames_per_clip", "num_frames", default=4)
        return self._normal(frames, 3, *self._sides())

    def _make_bool_masked_pos(self) -> torch.Tensor:
        height, width = self._sides()
        patch = self._number("patch_size", default=16)
        places = (height // patch) * (width // patch)
        return torch.rand(self._batch, places, generator=self._draws) > 0.5

    def _make_input_values(self) -> torch.Tensor:
        if self._has("audio_channels"):
            return self._normal(self._number("audio_channels", "n_channels", default=1), _SECONDS)
        if self._has("max_length") and self._has("num_mel_bins"):
            length = self._number("max_length", default=64)
            return self._normal(length, self._number("num_mel_bins", default=16))
        return self._normal(_SECONDS)

    def _make_input_features(self) -> torch.Tensor:
        bins = self._number("num_mel_bins", "n_mels", default=0)
        if self._has("max_source_positions") and bins and not self._has("input_feat_per_channel"):
            return self._normal(bins, 2 * self._number("max_source_positions", default=64))
        names = (
            *("input_feat_per_channel", "feature_projection_input_dim", "input_dim"),
            *("input_feat_size", "feature_size"),
        )
        return self._normal(48, self._number(*names, default=bins or 80))

    def _make_bbox(self) -> torch.Tensor:
        low = self._integers(0, 40, _TOKENS, 2)
        return torch.cat([low, low + 20], dim=-1)

    def _make_past_values(self) -> torch.Tensor:
        length = self._number("context_length", default=32)
        if self._has("lags_sequence"):
            return self._normal(
                length + max(getattr(self._configs[0], "lags_sequence", None) or [0])
            )
        return self._normal(length, self._number("num_input_channels", default=1))

    def _make_past_time_features(self) -> torch.Tensor:
        length = self._make_past_values().shape[1]
        return self._normal(length, self._number("num_time_features", default=1))

    def _make_past_observed_mask(self) -> torch.Tensor:
        return torch.ones_like(self._make_past_values())

    def _make_input_points(self) -> torch.Tensor:
        return torch.rand(self._batch, 1, 2, 2, generator=self._draws) * self._sides()[0]

    def _make_audio_codes(self) -> torch.Tensor:
        return self._integers(
            0, 32, self._number("num_codebooks", "num_quantizers", default=4), _TOKENS
        )

    def _make_spectrogram(self) -> torch.Tensor:
        return self._normal(16, self._number("model_in_dim", default=80))

    def _make_inputs_embeds(self) -> torch.Tensor:
        return self._normal(_TOKENS, self._number("hidden_size", "d_model", default=64))

    _make_hidden_states = _make_inputs_embeds

    def _normal(self, *shape: int) -> torch.Tensor:
        return torch.randn(self._batch, *shape, generator=self._draws)

    def _integers(self, low: int, high: int, *shape: int) -> torch.Tensor:
        return torch.randint(low, high, (self._batch, *shape), generator=self._draws)

    def _number(self, *names: str, default: int) -> int:
        """The first of these fields that a configuration or a part of it has, as a number."""
        for value in self._values(*names):
            first = value[0] if isinstance(value, (list, tuple)) and value else value
            if isinstance(first, int) and not isinstance(first, bool) and first > 0:
                return first
        return default

    def _sides(self) -> tuple[int, int]:
        """Height and width of an image."""
        for value in self._values("image_size", "img_size", "input_size", "crop_size"):
            sides = list(value.values()) if isinstance(value, dict) else value
            if isinstance(sides, (list, tuple)) and len(sides) >= 2:
                return int(sides[0]), int(sides[1])
            if isinstance(sides, int) and sides > 0:
                return sides, sides
        return 64, 64

    def _values(self, *names: str) -> Iterator[Any]:
        """What the configuration and its parts have of some fields, by field."""
        for name in names:
            for config in self._configs:
                yield getattr(config, name, None)

    def _has(self, name: str) -> bool:
        """Whether a configuration or a part of it has a field."""
        return any(hasattr(config, name) for config in self._configs)


_KNOWN = {name.removeprefix(_MAKE) for name in vars(Inputs) if name.startswith(_MAKE)}
"""Parameters that there is a value for."""


def choices(model: Any) -> Iterator[tuple[str, ...]]:
    """The sets of parameters to try, the likeliest first."""
    signature = inspect.signature(model.forward).parameters
    # A forward of any arguments says by its main input what it wants.
    main = model.main_input_name
    first = dict.fromkeys([*([main] if main in signature else []), *_required(model)])
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
        if names and names not in seen and _KNOWN.issuperset(names):
            seen.add(names)
            yield names


def unknown(model: Any) -> list[str]:
    """The parameters that its forward requires, and of which nothing is known here."""
    return [name for name in _required(model) if name not in _KNOWN]


def _required(model: Any) -> list[str]:
    return [
        parameter.name
        for parameter in inspect.signature(model.forward).parameters.values()
        if parameter.default is inspect.Parameter.empty
        and parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    ]


def configurations(config: Any) -> Iterator[Any]:
    """A configuration and those of its parts."""
    yield config
    for value in vars(config).values():
        if hasattr(value, "to_dict"):
            yield from configurations(value)
