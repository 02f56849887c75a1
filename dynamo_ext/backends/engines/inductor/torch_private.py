"""Inductor, called on a captured graph."""

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule

from dynamo_ext.backends.torch_private.aot import donate_nothing, finished, without_unused_draws
from dynamo_ext.backends.torch_private.decompositions import refuse_wrong_cuts


def inductor_compile(
    graph: GraphModule, inputs: Sequence[Any], mode: str, *, eagers_random: bool
) -> Callable[..., Any]:
    """Inductor on a graph, under one of its own modes, with eager's random numbers or its own.

    Raises ``StayEager`` where AOTAutograd would give another function.
    """
    refuse_wrong_cuts(graph)
    # Parts of torch still decorate with what torch itself has deprecated.
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):
        from torch._inductor import list_mode_options
        from torch._inductor.compile_fx import compile_fx, compile_fx_inner

        patches = {"fallback_random": eagers_random, **list_mode_options(mode)}

        def compile_inner(graph: GraphModule, *rest: Any, **facts: Any) -> Any:
            donate_nothing()
            if facts.get("is_backward"):
                without_unused_draws(graph)
            return compile_fx_inner(graph, *rest, **facts)

        # The backward pass is compiled later, when it is first called.
        config: Any = torch.compiler.config
        inner = config.patch(cache_key_tag=config.cache_key_tag)(compile_inner)
        compiled: Any = compile_fx(graph, inputs, inner, config_patches=patches)
    return finished(compiled)
