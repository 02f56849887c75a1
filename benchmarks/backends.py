"""The backends that the studies and the tests go over, from the registry."""

from __future__ import annotations

from dynamo_ext.backends import registry

LEFT_OUT = {
    "tvm_meta_schedule": "it tunes for minutes",
    "xla_trivial": "it is xla, traced again at each call",
}
"""Engines that are not gone over, and why."""

ENGINES = tuple(
    name for name in registry.OURS if not (registry.get(name).whole_graph or name in LEFT_OUT)
)
BACKENDS = ("eager", "aot_eager", "inductor", *ENGINES)
"""What is measured unless ``--backends`` says else."""


def without(*names: str) -> tuple[str, ...]:
    """The engines but for some."""
    return tuple(name for name in ENGINES if name not in names)
