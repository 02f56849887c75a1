"""A partition as a program of TVM's virtual machine, on torch's memory."""

import threading
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import GraphModule

from dynamo_ext.backends.base import CompiledFn
from dynamo_ext.backends.engines.tvm import convert
from dynamo_ext.backends.engines.tvm import target as tvm_target
from dynamo_ext.backends.engines.tvm.schedule import rules
from dynamo_ext.backends.support.lending import aligned

_LOCK = threading.RLock()
"""One call of TVM at a time: its threads serve one parallel loop."""


class Program:
    """A partition as a fused module: it can be built again and again, scheduled in other ways.

    ``functions`` are all PrimFuncs of its ``module`` that want a schedule, by their names.
    """

    def __init__(self, graph: GraphModule) -> None:
        tvm = tvm_target.package()
        from tvm import relax

        converted = convert.GraphConverter(graph)
        passes = [
            # A view without readers would count as a reader, and keep apart what could be fused.
            relax.transform.DeadCodeElimination(),
            relax.transform.LegalizeOps(),
            relax.transform.AnnotateTIROpPattern(),
            relax.transform.FuseOps(),
            relax.transform.FuseTIR(),
            relax.transform.DeadCodeElimination(),
        ]
        with tvm_target.target():
            self.module = tvm.transform.Sequential(passes)(converted.module)
        self._graph = graph
        # A reshape alone becomes a view when it is lowered, and is known by its plain loops.
        self.functions = {
            name: function
            for name, function in self.module.functions.items()
            if isinstance(function, tvm.tirx.PrimFunc) and not name.name_hint.startswith("reshape")
        }

    def built(self, schedule: Callable[[Any], Any]) -> Any:
        """A virtual machine on the CPU; ``schedule`` makes a PrimFunc's schedule."""
        tvm = tvm_target.package()
        from tvm import relax
        from tvm.relax.backend.cpu_generic import pipeline

        module = self.module.clone()
        for name, function in self.functions.items():
            made = schedule(function).mod["main"].without_attr("global_symbol")
            module.update_func(name, made.with_attr("tirx.is_scheduled", True))  # noqa: FBT003
        target = tvm_target.target()
        passes = [*pipeline.dataflow_lower_passes(target), *pipeline.finalize_passes(target)]
        with target:
            lowered = tvm.transform.Sequential(passes)(module)
            executable = relax.build(lowered, target, relax_pipeline=None)
        return relax.VirtualMachine(executable, tvm.cpu())

    def inputs(self) -> list[torch.Tensor]:
        """Tensors to time it with: normally distributed, or zero where they may be indices."""
        generator = torch.Generator().manual_seed(0)
        made = []
        for node in self._graph.graph.find_nodes(op="placeholder"):
            dtype = convert.facts(node).dtype
            value = torch.zeros(convert.shape_of(node), dtype=dtype, device="cpu")
            made.append(value.normal_(generator=generator) if dtype.is_floating_point else value)
        return made


def compiled(
    graph: GraphModule,
    build: Callable[[Program], Any] = lambda program: program.built(rules.schedule),
) -> CompiledFn:
    """A partition in TVM, which takes tensors and gives a list of them.

    Inputs are lent by DLPack: nothing is copied, unless an input is not row-major or does not
    start at a multiple of 64 bytes. Outputs are TVM's memory, which torch owns from then on.
    ``build`` gives a ``Program``'s virtual machine, whose schedules are made by rule by default.
    """
    with _LOCK:
        main = build(Program(graph))["main"]

    def run(*inputs: Any) -> list[Any]:
        held = [aligned(value) for value in inputs]
        with _LOCK:
            returned = main(*held)
        return [torch.from_dlpack(each) for each in returned]

    return run
