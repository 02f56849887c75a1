"""What torch was told that keeps Dynamo out, as a report has it: a stance, a switch, a mode."""

from __future__ import annotations

from dynamo_ext.records import Fallback

_DEFAULT = 'Call torch.compiler.set_stance("default").'


def _fallback(why: str, remedy: str) -> Fallback:
    return Fallback("capture", "run", "", "", "", why, remedy)


FORCED = _fallback(
    'torch.compiler.set_stance("force_eager") holds, with which torch uses no compiled code',
    _DEFAULT,
)
"""Of a run under the stance ``force_eager``."""

REUSED_ONLY = _fallback(
    'torch.compiler.set_stance("eager_on_recompile") holds, with which nothing new is compiled',
    _DEFAULT,
)
"""Of a run under the stance ``eager_on_recompile`` that met something new."""


def looked_at(onlooker: str) -> Fallback:
    """Of a run in which somebody looks at every operation (``torch_private.onlooker``)."""
    why = f"{onlooker} looks at every operation, of which compiled code shows none"
    return _fallback(why, f"Call the compiled code without {onlooker}.")


def switched_off(switch: str) -> Fallback:
    """Of a run with a switch set (``torch_private.switched_off`` names it)."""
    if switch.endswith("=1"):
        remedy = "Start Python anew without it."
    else:
        remedy = f"Set {switch} = False; the environment may have TORCH_COMPILE_DISABLE=1."
    return _fallback(f"{switch} is set, with which torch compiles nothing", remedy)
