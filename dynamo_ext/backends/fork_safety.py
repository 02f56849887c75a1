"""Engines that do not survive a fork: the child has none of their threads, and would wait for them.

What the parent compiled with them runs in eager there, and nothing new is compiled with them.
"""

import os
import weakref
from typing import Any

from dynamo_ext.backends.base import StayEager

_REMEDY = 'Start worker processes with "spawn", or use the engine in them alone.'

_begun: dict[str, int] = {}

_leavers: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()


def begin(runtime: str) -> None:
    """Note that a runtime is used in this process.

    Raises ``StayEager`` where it was used before this process was forked.
    """
    if _begun.setdefault(runtime, os.getpid()) != os.getpid():
        raise StayEager(_reason(runtime), _REMEDY)


def stay_behind(leaver: Any, runtime: str) -> None:
    """Have what was compiled for a runtime leave it in every process that is forked from here.

    Its ``leave(reason, remedy)`` only notes that: right after a fork, nothing may be released.
    """
    _leavers[leaver] = runtime


def _reason(runtime: str) -> str:
    return (
        f"{runtime} was in use before this process was forked; "
        "its threads do not exist in the child."
    )


def _in_child() -> None:
    for leaver, runtime in list(_leavers.items()):
        leaver.leave(_reason(runtime), _REMEDY)


# Windows has no fork.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
