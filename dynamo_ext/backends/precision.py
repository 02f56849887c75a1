"""A precision behind a backend's name: ``openvino:bf16``, which is the option of that name."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from dynamo_ext.backends.base import StayEager
from dynamo_ext.records.common import FULL, OptionSpec

if TYPE_CHECKING:
    from collections.abc import Mapping


LOWER = ("bf16", "fp16", "int8")
"""What there is below it: an engine's floating numbers, or its weights and products."""

CONVOLUTION = "aten::convolution"
WEIGHTS = {"aten::mm": 1, "aten::addmm": 2, CONVOLUTION: 1}
"""The products that int8 rounds where their weights are constants, and where these stand."""

REMEDY = "Use a precision with a smaller error, or float32: %%dynamo compare shows the errors."
"""What to do where a result misses the bound of its precision, or the user's."""


def option(*choices: str) -> OptionSpec:
    """The option ``precision`` of a backend that can compute in ``choices`` as well."""
    about = "what is computed in; weights, inputs and results keep their dtypes"
    return OptionSpec("precision", FULL, about, (FULL, *choices))


BY_AUTOCAST = (
    option("bf16", "fp16"),
    OptionSpec(
        "freeze", default=True, help="cast weights to a lower precision once, under no_grad"
    ),
)
"""The options of a backend that is lowered by torch's autocast."""


def split(text: str) -> tuple[str, dict[str, str]]:
    """A backend's name, and the options behind it.

    ``openvino:bf16[threads=1]`` is openvino with these two; ``table['a']`` is an expression.
    """
    found = _WITH_OPTIONS.fullmatch(text)
    name, listed = found.groups() if found is not None else (text, "")
    options = dict(pair.strip().split("=", 1) for pair in listed.split(",") if pair)
    before, colon, precision = name.rpartition(":")
    return (before, {"precision": precision.strip(), **options}) if colon else (name, options)


_OPTION = r"\s*\w+=[^\[\],]*"
_WITH_OPTIONS = re.compile(rf"([\w.:]+)\[({_OPTION}(?:,{_OPTION})*)\]")


def of(options: Mapping[str, Any]) -> str:
    """The precision among a backend's options."""
    chosen = str(options.get("precision", FULL))
    return chosen if chosen in LOWER else FULL


def behind(name: str) -> str:
    """The precision that a backend of this name computes in, as ``label`` writes it."""
    return of(split(name)[1])


def label(name: str, options: Mapping[str, Any]) -> str:
    """The name of a backend with its precision, where that is not the code's own."""
    chosen = of(options)
    return name if chosen == FULL else f"{name}:{chosen}"


def has_vnni() -> bool:
    """Whether the processor adds up products of eight bits in 32: in 16, they overflow."""
    import torch

    found = torch.cpu.get_capabilities()
    return bool(found.get("avx512_vnni") or found.get("avx_vnni"))


def nothing_to_round(engine: str, *, convolutions: bool) -> StayEager:
    """What an engine raises that was asked for int8 and finds nothing that it could round.

    ``convolutions``: whether it would round some, if it knew the ranges of their activations.
    """
    if convolutions:
        return StayEager(
            f"{engine} quantises convolutions in ranges of activations, and knows none here.",
            "Give it calls to calibrate on: dynamo_ext.calibrating(), or --check-on x=batches.",
        )
    return StayEager(
        f"No product in it has constant weights, and {engine} quantises no other.",
        "Call the model under torch.no_grad(), where weights are constants.",
    )
