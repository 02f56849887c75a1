"""A configuration of transformers made small by the names of its fields.

Widths are divided by one power of two all over the tree of configurations, so that what must
divide, add up or be equal still does; numbers of heads stay.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

WORDS = 512
"""Of a small vocabulary; special tokens are its last ones."""

PLACES = 128
"""Positions that a small model knows."""

PIXELS = 64
"""Of a small image's side, or the next multiple of the patch below it."""

_EXPERTS = 8
_WIDEST = 64
_NARROWEST = 8
_MAIN = ("hidden_size", "d_model", "n_embd", "dim", "embed_dim")
_HEADS = ("num_attention_heads", "num_heads", "n_head", "n_heads", "encoder_attention_heads")

_LAYERS = re.compile(r"layers?$|^depth$|^n_blocks$|^num_blocks$")
_DEPTHS = re.compile(r"depths$|block_repeats$|^num_blocks$|^block_sizes$|^layers$|n_attn_blocks")
_VOCABULARY = re.compile(r"vocab(ulary)?_size$|^n_vocab$|_vocab$")
_TOKEN = re.compile(
    r"token_ids?$|token_index$|_id$|_ids$|_token$|^(bos|eos|pad|cls|sep|unk)_index$"
)
_POSITIONS = re.compile(r"position(s|_embeddings)$|^n_ctx$|seq_len(gth)?$|^model_max_length$")
_IMAGE = re.compile(r"^(image|img|crop|input)_size$|^image_resolution$|^resolution$")
_EXPERT = re.compile(r"^(num|n|moe_num)_.*experts$")
_CHOSEN = re.compile(r"experts_per_tok(en)?$|^moe_top_?k$|^top_k_experts$|^moe_k$")
_NO_WIDTH = re.compile(
    r"token|_ids?$|index|idx|indices|vocab|position|length|kernel|patch|window|image_size|img_size"
    r"|stride|layers|depth|heads$|^num_|^n_(?!embd|inner)|period|interval|groups|sampl|rate|chunk"
    r"|context|top_?k|experts|step|seed|bucket|bins|^max_|^min_|crop|frames|resolution|mel|scale"
)
_WIDTH = re.compile(
    r"size|dim|width|channel|hidden|embd|inner|rank|feature|filter|d_model|dff|d_ff|ffn|units"
    r"|planes|latent|d_kv|d_k$|d_v$"
)


@dataclass(frozen=True)
class Recipe:
    """How small a configuration is made.

    Parameters
    ----------
    layers
        At most so many in each stack; 0 leaves their number.
    width
        Widths are divided by this; 0 chooses the power of two that makes the widest main one 64.
    image
        Whether images get smaller.
    """

    layers: int
    width: int
    image: bool

    @property
    def name(self) -> str:
        """Short, for a row: ``2-0-1``."""
        return f"{self.layers}-{self.width}-{int(self.image)}"

    def is_larger(self, other: Recipe) -> bool:
        """Whether no part of a configuration gets smaller than by the other recipe."""
        pairs = zip(self._sizes(), other._sizes(), strict=True)
        return all(mine >= theirs for mine, theirs in pairs)

    def _sizes(self) -> tuple[float, float, bool]:
        divided = 1 / self.width if self.width else 0.0
        return self.layers or math.inf, divided, not self.image

    @classmethod
    def named(cls, name: str) -> Recipe:
        """The recipe of a ``name``."""
        layers, width, image = map(int, name.split("-"))
        return cls(layers, width, bool(image))


RECIPES = tuple(
    Recipe(layers, width, image)
    for width in (0, 4, 1)
    for layers, image in ((2, True), (4, True), (0, True), (2, False), (0, False))
)
"""Tried one after another until a model can be made of one."""


def small(config: dict[str, Any], recipe: Recipe) -> dict[str, Any]:
    """A configuration's fields, with those of its parts, made small.

    Parameters
    ----------
    config
        As ``to_dict`` gives it.
    recipe
        How small.
    """
    factor = recipe.width or _factor(config)
    return _Shrinker(recipe, factor).fields(config)


def _factor(config: dict[str, Any]) -> int:
    """The power of two that makes the widest main width 64, and no head narrower than 8."""
    widths, heads = zip(*_main_widths(config), strict=True)
    most = min(min(heads) // _NARROWEST, max(widths) // _WIDEST)
    factor = 1
    while 2 * factor <= most:
        factor *= 2
    return factor


def _main_widths(config: dict[str, Any]) -> Iterator[tuple[int, int]]:
    """Of each configuration of a tree its width and that of a head of its attention."""
    width = next((w for name in _MAIN if _is_number(w := config.get(name)) and w), 8 * _WIDEST)
    number = next((n for name in _HEADS if _is_number(n := config.get(name)) and n), 0)
    sizes = [w for name, w in config.items() if name.endswith("head_dim") and _is_number(w) and w]
    yield width, min([*sizes, *([width // number] if number else [])], default=width)
    for part in config.values():
        if isinstance(part, dict) and any(name in part for name in _MAIN):
            yield from _main_widths(part)


class _Shrinker:
    def __init__(self, recipe: Recipe, factor: int) -> None:
        self._recipe = recipe
        self._factor = factor
        self._tokens: dict[int, int] = {}

    def fields(self, config: dict[str, Any]) -> dict[str, Any]:
        """One configuration's fields, small."""
        # A list with an entry for each layer is as long as the number of layers says.
        counts = {v for k, v in config.items() if _is_number(v) and _LAYERS.search(k)}
        made: dict[str, Any] = {}
        for name, value in config.items():
            if isinstance(value, dict):
                made[name] = self.fields(value)
            elif isinstance(value, (list, tuple)) and value:
                made[name] = self._several(name, list(value), counts, config)
            else:
                made[name] = self._one(name, value, config)
        return made

    def _several(
        self, name: str, values: list[Any], counts: set[int], config: dict[str, Any]
    ) -> list[Any]:
        wanted = self._recipe.layers
        if _DEPTHS.search(name) and all(map(_is_number, values)):
            return [min(value, wanted) if wanted else value for value in values]
        if wanted and len(values) in counts and len(values) > wanted:
            # As many kinds of layers as there is room for.
            firsts = {str(value): place for place, value in reversed(list(enumerate(values)))}
            places = sorted(firsts.values())[:wanted]
            places += [place for place in range(len(values)) if place not in places]
            return [self._one(name, values[place], config) for place in sorted(places[:wanted])]
        return [self._one(name, value, config) for value in values]

    def _one(self, name: str, value: Any, config: dict[str, Any]) -> Any:
        if not _is_number(value):
            return value
        recipe = self._recipe
        rules: tuple[tuple[re.Pattern[str], Callable[[], int]], ...] = (
            (_VOCABULARY, lambda: min(value, WORDS)),
            (_TOKEN, lambda: value if value < WORDS - 64 else self._token(value)),
            (_LAYERS, lambda: min(value, recipe.layers or value)),
            (_EXPERT, lambda: min(value, max(_EXPERTS, 2 * (config.get("n_group") or 0)))),
            (_CHOSEN, lambda: min(value, 2)),
            (_POSITIONS, lambda: min(value, PLACES) if recipe.image else value),
            (_IMAGE, lambda: self._pixels(value, config) if recipe.image else value),
        )
        for pattern, shrunk in rules:
            if pattern.search(name):
                return shrunk()
        return self._width(name, value)

    def _width(self, name: str, value: int) -> int:
        rotary = name == "mrope_section"
        is_width = bool(_WIDTH.search(name)) and not _NO_WIDTH.search(name) and value >= _WIDEST
        divides = value % self._factor == 0
        return value // self._factor if divides and (rotary or is_width) else value

    def _pixels(self, value: int, config: dict[str, Any]) -> int:
        patch = config.get("patch_size")
        patch = patch[0] if isinstance(patch, (list, tuple)) and patch else patch
        if not isinstance(patch, int) or patch < 1:
            patch = 1
        return min(value, max(PIXELS // patch, 2) * patch)

    def _token(self, value: int) -> int:
        return self._tokens.setdefault(value, WORDS - 1 - len(self._tokens) % 64)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
