"""Inductor, called on a captured graph."""

import functools
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from torch.fx import GraphModule

from dynamo_ext.backends import journal
from dynamo_ext.backends.torch_private.aot import bare
from dynamo_ext.backends.torch_private.decompositions import refuse_wrong_cuts
from dynamo_ext.backends.torch_private.vec_isa import checked_once

_FIRST_TIME = "inductor checks the C++ compiler, for the first time on this machine"


def inductor_compile(graph: GraphModule, inputs: Sequence[Any], mode: str) -> Callable[..., Any]:
    """Inductor on a graph, under one of its own modes (``default`` patches nothing).

    Raises ``StayEager`` where AOTAutograd would give another function.
    """
    refuse_wrong_cuts(graph)
    with warnings.catch_warnings():
        # Parts of torch still decorate with what torch itself has deprecated.
        warnings.simplefilter("ignore", DeprecationWarning)
        from torch._inductor import list_mode_options
        from torch._inductor.compile_fx import compile_fx, compile_fx_inner

        patches = list_mode_options(mode) if mode != "default" else None
        checks = functools.partial(checked_once, functools.partial(journal.doing, _FIRST_TIME))
        with checks():
            # The backward pass is compiled later, when it is first called.
            inner = checks()(compile_fx_inner)
            compiled: Any = compile_fx(graph, inputs, inner, config_patches=patches)
    return bare(compiled)
