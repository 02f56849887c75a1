"""Inductor, called on a captured graph."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

from torch.fx import GraphModule

from dynamo_ext.backends.torch_private.aot import bare
from dynamo_ext.backends.torch_private.decompositions import refuse_wrong_cuts


def inductor_compile(graph: GraphModule, inputs: Sequence[Any], mode: str) -> Callable[..., Any]:
    """Inductor on a graph, under one of its own modes (``default`` patches nothing).

    Raises ``StayEager`` where AOTAutograd would give another function.
    """
    refuse_wrong_cuts(graph)
    with warnings.catch_warnings():
        # Parts of torch still decorate with what torch itself has deprecated.
        warnings.simplefilter("ignore", DeprecationWarning)
        from torch._inductor import list_mode_options
        from torch._inductor.compile_fx import compile_fx

        patches = list_mode_options(mode) if mode != "default" else None
        compiled: Any = compile_fx(graph, inputs, config_patches=patches)
    return bare(compiled)
