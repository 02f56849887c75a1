"""What kept a whole run, or a part of it, out of Dynamo, as a report has it."""

from typing import Any

from dynamo_ext.capture.torch_private import frame_eval
from dynamo_ext.records.report import Fallback
from dynamo_ext.timing.first_run import FirstRun
from dynamo_ext.torch_private import version

_DEFAULT = 'Call torch.compiler.set_stance("default").'


def of_run(why: str, remedy: str, **more: Any) -> Fallback:
    """Of a run in which something was not captured; ``more`` are other fields."""
    return Fallback("capture", "run", "", "", "", why, remedy, **more)


FORCED = of_run(
    'torch.compiler.set_stance("force_eager") is in effect, so torch uses no compiled code',
    _DEFAULT,
)
"""Of a run under the stance ``force_eager``."""

REUSED_ONLY = of_run(
    'torch.compiler.set_stance("eager_on_recompile") is in effect, so nothing new is compiled',
    _DEFAULT,
)
"""Of a run under the stance ``eager_on_recompile`` that met something new."""


def lacking() -> list[Fallback]:
    """Of a run under a torch that the tests have not run on, and what is off on it."""
    unseen = version.unseen()
    if not unseen:
        return []
    lost = [of_run(reason, version.REMEDY) for reason in version.switched_off()]
    return [*lost, of_run(unseen, "", harmless=True)]


def observed(mode: str) -> Fallback:
    """Of a run in which a tool observes each operation (``active_modes.tracing_mode_name``)."""
    why = f"{mode} is active and cannot observe operations inside compiled code"
    return of_run(why, f"Call the compiled code without {mode}.")


def used_up(given: FirstRun) -> Fallback:
    """Of a run that met something new when its seconds were used up; names what took the last."""
    of, by, rest = f"The {given.seconds:g} s", given.by(), "what is new"
    if given.left:
        of, by = f"{given.spent:.3g} of the {given.seconds:g} s", ""
        rest = "what takes longer than the rest of them"
    why = f"{of} for the first run were used up{by}: {rest} runs in Python"
    return of_run(why, given.remedy, cause="time")


def switched_off(switch: str) -> Fallback:
    """Of a run with a switch set (``torch_private.switched_off`` names it)."""
    if switch == frame_eval.ENVIRONMENT_SWITCH:
        remedy = "Restart Python without it."
    else:
        remedy = f"Set {switch} = False; the environment may have TORCH_COMPILE_DISABLE=1."
    return of_run(f"{switch} is set, so torch compiles nothing", remedy)
