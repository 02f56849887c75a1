"""A partition as a program of TVM's virtual machine, on torch's memory."""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING, Any

from dynamo_ext.backends import tvm_convert, tvm_schedule, tvm_target

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from torch.fx import GraphModule

ALIGNMENT = 64
"""Bytes that vector loads want addresses to be a multiple of."""

_LOCK = threading.RLock()
"""One call of TVM at a time: its threads serve one parallel loop."""


class IndexRangeError(IndexError):
    """An index was out of range: eager raises torch's own error."""


def fused(walk: tvm_convert.Walk) -> Any:
    """A walk's module, legalised and fused: PrimFuncs that want schedules."""
    tvm = tvm_target.package()
    from tvm import relax

    passes = [
        # A view that nobody reads would count as a reader, and keep apart what could be fused.
        relax.transform.DeadCodeElimination(),
        relax.transform.LegalizeOps(),
        relax.transform.AnnotateTIROpPattern(),
        relax.transform.FuseOps(),
        relax.transform.FuseTIR(),
        relax.transform.DeadCodeElimination(),
    ]
    with tvm_target.target():
        return tvm.transform.Sequential(passes)(walk.module)


def unscheduled(module: Any) -> list[tuple[Any, Any]]:
    """The functions of a fused module that want a schedule, with their names.

    A reshape alone becomes a view when it is lowered, and is known by its plain loops.
    """
    tvm = tvm_target.package()
    return [
        (name, function)
        for name, function in module.functions.items()
        if isinstance(function, tvm.tirx.PrimFunc) and not name.name_hint.startswith("reshape")
    ]


def scheduled(module: Any, schedule: Callable[[Any], Any]) -> Any:
    """A copy of a module, with each of its functions scheduled."""
    copy = module.clone()
    for name, function in unscheduled(module):
        made = schedule(function).mod["main"].without_attr("global_symbol")
        copy.update_func(name, made.with_attr("tirx.is_scheduled", True))  # noqa: FBT003
    return copy


def built(module: Any) -> Any:
    """A scheduled module as a virtual machine on the CPU."""
    tvm = tvm_target.package()
    from tvm import relax
    from tvm.relax.backend.cpu_generic import pipeline

    target = tvm_target.target()
    passes = [*pipeline.dataflow_lower_passes(target), *pipeline.finalize_passes(target)]
    with target:
        lowered = tvm.transform.Sequential(passes)(module)
        executable = relax.build(lowered, target, relax_pipeline=None)
    return relax.VirtualMachine(executable, tvm.cpu())


class Program:
    """A partition as a fused module: it can be built again and again, scheduled in other ways.

    Parameters
    ----------
    graph
        A partition of fixed shapes; constants are ``get_attr`` nodes.

    Attributes
    ----------
    functions
        All PrimFuncs that want a schedule.
    faults
        What is said of each flag that follows the results.
    """

    def __init__(self, graph: GraphModule) -> None:
        walk = tvm_convert.Walk(graph)
        self._module = fused(walk)
        self._graph = graph
        self.functions = [function for _, function in unscheduled(self._module)]
        self.faults = walk.faults

    def built(self, schedule: Callable[[Any], Any]) -> Any:
        """A virtual machine on the CPU; ``schedule`` makes a PrimFunc's schedule."""
        return built(scheduled(self._module, schedule))

    def inputs(self) -> list[torch.Tensor]:
        """Tensors to time it with: normally distributed, or zero where they may be indices."""
        import torch

        generator = torch.Generator().manual_seed(0)
        made = []
        for node in self._graph.graph.find_nodes(op="placeholder"):
            fact = tvm_convert.facts(node)
            shape = [int(size) for size in fact.shape]
            value = torch.zeros(shape, dtype=fact.dtype, device="cpu")
            if fact.dtype.is_floating_point:
                value.normal_(generator=generator)
            made.append(value)
        return made


def _by_rule(program: Program) -> Any:
    return program.built(tvm_schedule.schedule)


class Session:
    """A partition in TVM: ``run(*inputs)`` gives a list of tensors.

    Inputs are lent by DLPack: nothing is copied, unless an input is not row-major or does not
    start at a multiple of 64 bytes. Outputs are TVM's memory, which torch owns from then on.

    Parameters
    ----------
    graph
        A partition of fixed shapes; constants are ``get_attr`` nodes.
    build
        Gives a ``Program``'s virtual machine; by default schedules are made by rule.
    """

    def __init__(
        self,
        graph: GraphModule,
        build: Callable[[Program], Any] = _by_rule,
    ) -> None:
        tvm_convert.all_converters()
        with _LOCK:
            program = Program(graph)
            self._vm = build(program)
        self._call = self._vm["main"]
        self._faults = program.faults
        nodes = graph.graph.output_node().args[0]
        facts = [tvm_convert.facts(node) for node in nodes]  # type: ignore[union-attr]
        self._count = len(facts)
        self._expected = [(tuple(int(s) for s in f.shape), f.dtype) for f in facts]
        self._shared: list[int] | None = None

    def run(self, *inputs: Any) -> list[Any]:
        """Run the program on torch's memory.

        Raises
        ------
        IndexRangeError
            Where an index was out of range.
        """
        held = [_plain(value) for value in inputs]
        with _LOCK:
            returned = self._call(*held)
        take = _taker()
        if not self._faults and self._shared is not None and not self._shared:
            return [take(each) for each in returned]
        results = [take(each) for each in returned]
        for flag, message in zip(results[self._count :], self._faults, strict=True):
            if flag.item():
                raise IndexRangeError(message)
        results = results[: self._count]
        if self._shared is None:
            with _LOCK:
                again = self._call(*held)
            self._shared = self._examined(results, held, [take(each) for each in again])
        for position in self._shared:
            results[position] = results[position].clone()
        return results

    def _examined(
        self, results: list[torch.Tensor], inputs: list[Any], again: list[torch.Tensor]
    ) -> list[int]:
        """Positions of results whose memory is an input's, another result's or a constant's.

        A constant's is known by being there a second time, while the first result is held.
        """
        for result, (shape, dtype) in zip(results, self._expected, strict=True):
            if (tuple(result.shape), result.dtype) != (shape, dtype):
                message = (
                    f"A result is {result.dtype} {tuple(result.shape)} where torch has "
                    f"{dtype} {shape}"
                )
                raise RuntimeError(message)
        seen = {value.data_ptr() for value in [*inputs, *again]}
        shared = []
        for position, result in enumerate(results):
            if result.numel() and result.data_ptr() in seen:
                shared.append(position)
            seen.add(result.data_ptr())
        return shared


@functools.cache
def _taker() -> Callable[[Any], torch.Tensor]:
    import torch

    return torch.from_dlpack


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself where it is row-major and aligned, and has no gradient or lazy bits."""
    if tensor.requires_grad:
        tensor = tensor.detach()
    if tensor.is_neg():
        tensor = tensor.resolve_neg()
    if not tensor.is_contiguous():
        tensor = tensor.contiguous()
    return tensor.clone() if tensor.data_ptr() % ALIGNMENT else tensor
