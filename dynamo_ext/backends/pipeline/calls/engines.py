"""The engines of a partition: one for each set of weights that is constant, and each shape."""

import operator
import os
import time
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.utils._pytree import tree_map_only

from dynamo_ext.backends import calibration, crash_records
from dynamo_ext.backends.base import CompiledFn, fact
from dynamo_ext.backends.compile_context import CompileContext
from dynamo_ext.backends.fx_graph import root_of_views
from dynamo_ext.backends.pipeline.calls.graph_check import address_of
from dynamo_ext.backends.pipeline.calls.weight_sets import FastPath, WeightSet, WeightSets
from dynamo_ext.backends.pipeline.freeze import frozen
from dynamo_ext.backends.pipeline.memory_format import expected_orders, in_layout, order_of
from dynamo_ext.backends.pipeline.specialize_shapes import shape_key, specialised
from dynamo_ext.backends.support.lending import aligned
from dynamo_ext.backends.support.single_op import is_convolution, weights_place
from dynamo_ext.interruptions import Listening, failures, suppressed
from dynamo_ext.torch_private import dispatch


@dataclass
class Engine:
    """A lowered form of a partition; trusted once its first results agreed with eager's.

    ``select`` takes what the engine gets of a call's arguments. ``orders`` has the dimensions of
    those outputs that are not row-major. ``shared`` has the positions of outputs that are copied,
    since they come in the memory of an input, of another output, or of an earlier call's. An engine
    that is ``doubted`` was trusted before: its next call is checked again. One that ``missed`` the
    user's bound at its first check is trusted all the same. ``lowered`` counts operations of
    products that it runs in a lower precision, if known. ``load`` waits for it to be loaded.
    """

    run: CompiledFn
    select: Callable[[Sequence[Any]], Sequence[Any]]
    orders: dict[int, tuple[int, ...]]
    trusted: bool = False
    shared: Collection[int] = ()
    doubted: bool = False
    missed: bool = False
    lowered: int | None = None
    load: Callable[[], None] | None = None

    def first_call(self, args: Sequence[Any]) -> Sequence[Any]:
        """Run it on the arguments of the partition, and find out about ``shared``."""
        # In this form engines read them where they are.
        given = [aligned(v) if dispatch.is_plain_tensor(v) else v for v in self.select(args)]
        outputs = self.run(*given)
        owners = list(map(address_of, (*given, *outputs)))
        positions = enumerate(owners[len(given) :])
        found = (i for i, own in positions if own and own in owners[: len(given) + i])
        self.shared = {*self.shared, *found}
        return self._own(outputs)

    def _laid_out(self, *given: Any) -> Sequence[Any]:
        return self._own(self.run(*given))

    def _own(self, outputs: Sequence[Any]) -> Sequence[Any]:
        if self.shared:
            outputs = [o.clone() if i in self.shared else o for i, o in enumerate(outputs)]
        return in_layout(outputs, self.orders)

    def lay_out(self, outputs: Sequence[Any], expected: Sequence[Any]) -> Sequence[Any]:
        """The outputs in eager's order of dimensions, which later ones have from the start."""
        for position, (got, want) in enumerate(zip(outputs, expected, strict=True)):
            if order_of(got) != order_of(want):
                self.orders[position] = order_of(want)
        return in_layout(outputs, self.orders)

    def fast_path(self) -> FastPath:
        """How it is run later, with no more steps than it needs."""
        return (self._laid_out if self.orders or self.shared else self.run), self.select


class Engines:
    """Builds the engines and finds the one for a call.

    ``weights`` maps positions of placeholders to parameters and buffers that may be constants.
    ``sets`` has the weights that are, ``unfrozen`` is a set of none. ``lowered`` is that of the
    last engine built or trusted, and ``calibrated`` counts the calls by which it was calibrated.
    """

    def __init__(
        self, graph: GraphModule, context: CompileContext, weights: Mapping[int, torch.Tensor]
    ) -> None:
        self._graph = graph
        self._context = context
        symbolic = any(dispatch.is_symbolic(n.meta.get("val")) for n in graph.graph.nodes)
        self.per_shape = symbolic and not fact(context.backend, "dynamic_shapes")
        placeholders = graph.graph.find_nodes(op="placeholder")
        self._count = len(placeholders)
        # Engines see no input that nothing reads, nor sizes where each shape has its engine.
        self._unused = {
            position
            for position, node in enumerate(placeholders)
            if not node.users
            or (self.per_shape and not isinstance(node.meta.get("val"), torch.Tensor))
        }
        known = {i: weight for i, weight in weights.items() if i not in self._unused}
        self.sets = WeightSets(known, self._release)
        self.frozen = len(known) if self.sets.live else 0
        self.known: dict[tuple[Any, ...], Engine | None] = {}
        self.unfrozen = WeightSet()
        self._calls: dict[tuple[Any, ...], list[Sequence[Any]]] = {}
        self.calibrated = 0
        self.seconds = 0.0
        self.lowered: int | None = None
        self.from_disk = False
        self.built = 0
        self._process = os.getpid()

    def constants(self, args: Sequence[Any]) -> WeightSet:
        """The weights to make constants of for a call; none where they are to be inputs."""
        found = self.sets.holding(args)
        if found is None and self.unfrozen.fast_path is None:
            found = self.sets.new(args)
        return found or self.unfrozen

    def key(self, args: Sequence[Any], constants: WeightSet) -> tuple[Any, ...]:
        """What must be equal for one engine to serve two calls."""
        return constants.number, *(shape_key(args) if self.per_shape else ())

    def calibrate(self, args: Sequence[Any], constants: WeightSet) -> bool:
        """Keep a call's inputs for the engine to come; false where it is there, or needs none.

        Those with values that are not finite say nothing of ranges.
        """
        key = self.key(args, constants)
        if key in self.known or not self.takes_ranges(constants):
            return False
        calls = self._calls.setdefault(key, [])
        if len(calls) < calibration.MOST_CALLS:
            # What cannot be looked at, or kept, calibrates nothing.
            with suppressed(Exception):
                given = self._given(constants)(args)
                if all(each.isfinite().all() for each in given if isinstance(each, torch.Tensor)):
                    copied = tree_map_only(torch.Tensor, lambda x: x.detach().clone(), [*given])
                    calls.append(copied)
        return True

    def takes_ranges(self, constants: WeightSet) -> bool:
        """Whether the partition has a convolution whose weights are constants."""
        return any(map(is_convolution, self.products(constants)))

    def products(self, constants: WeightSet) -> list[Node]:
        """What int8 rounds where it can: products whose weights are constants, in float32."""
        placeholders = self._graph.graph.find_nodes(op="placeholder")
        constant = {placeholders[position] for position in constants.weights}
        found = []
        for node in self._graph.graph.nodes:
            place = weights_place(node)
            if place is None:
                continue
            source: Any = root_of_views(node.args[place])
            held = source in constant or source.op == "get_attr"
            if held and getattr(source.meta.get("val"), "dtype", None) is torch.float32:
                found.append(node)
        return found

    def loaded(self, engine: Engine) -> bool:
        """Whether an engine can be called; one that does not load is forgotten."""
        try:
            # Another thread that calls meanwhile has to wait, too.
            if (load := engine.load) is not None:
                load()
                engine.load = None
        except failures():  # it is converted again
            self.known = {key: each for key, each in self.known.items() if each is not engine}
            return False
        return True

    def build(
        self, args: Sequence[Any], constants: WeightSet, full: Collection[str] = ()
    ) -> Engine:
        """Lower the partition; whatever the backend raises is raised, and no engine known then.

        ``full`` names the products that stay in full precision where the others are in int8.
        """
        key = self.key(args, constants)
        self.known[key] = None
        start = time.perf_counter()
        with Listening(), dispatch.outside_modes():
            graph = specialised(self._graph, args) if self.per_shape else self._graph
            graph = frozen(graph, constants.weights, self._unused)
            examples = [n.meta.get("val") for n in graph.graph.nodes if n.op == "placeholder"]
            orders = expected_orders(graph)
            calls, context = self._calls.get(key, []), self._context
            try:
                with crash_records.during(context.attempt, "compiling"):
                    lowered = context.lower(graph, examples, calibration=calls, full_precision=full)
            except BaseException:
                self._calls.pop(key, None)
                raise
        select = self._given(constants)
        made = self.known[key] = Engine(lowered.run, select, orders, shared=_fixed_outputs(graph))
        made.lowered = self.lowered = lowered.lowered_operations
        made.load = lowered.load
        self.from_disk = lowered.from_disk
        if calls:
            # An engine's memory goes with the last reference to it.
            doubt = partial(self._doubt, weakref.ref(made), weakref.ref(constants))
            made.run = calibration.counted(lowered.run, doubt)
        self.calibrated = len(calls)
        self.seconds += time.perf_counter() - start
        self.built += 1
        return made

    def _given(self, constants: WeightSet) -> Callable[[Sequence[Any]], Sequence[Any]]:
        left_out = {*self._unused, *constants.weights}
        return _selector([i for i in range(self._count) if i not in left_out], self._count)

    def proven(self) -> bool:
        """Whether any engine is trusted."""
        return any(engine is not None and engine.trusted for engine in list(self.known.values()))

    def trust(self, engine: Engine, args: Sequence[Any], constants: WeightSet) -> None:
        """Have calls as this one go to the engine unchecked, and by the shortest way."""
        engine.trusted = True
        key = self.key(args, constants)
        # Others may have been built after it, with products kept.
        self.known[key], self.lowered = engine, engine.lowered
        self._calls.pop(key, None)
        if not self.per_shape:
            constants.fast_path = engine.fast_path()

    def _doubt(self, engine: weakref.ref[Engine], constants: weakref.ref[WeightSet]) -> None:
        """Have the next call of a trusted engine checked as its first one was."""
        made, weights = engine(), constants()
        if made is None or not made.trusted:
            return
        made.trusted, made.doubted = False, True
        if weights is not None:
            weights.fast_path = None

    def leave(self) -> None:
        """Forget the shortest ways, and keep the engines."""
        for each in (*self.sets.live, self.unfrozen):
            each.fast_path = None

    def clear(self) -> None:
        """Let go of all engines."""
        self.unfrozen.fast_path = None
        self.known.clear()
        self._calls.clear()
        self.sets.live = ()
        self.frozen = 0

    def _release(self, gone: WeightSet) -> None:
        """Let an engine's memory go with the model whose weights it has."""
        gone.fast_path = None
        kept: dict[tuple[Any, ...], Any]
        if os.getpid() != self._process:
            # A forked process that released an engine might wait for its threads.
            return
        for kept in (self.known, self._calls):
            for key in [key for key in list(kept) if key[0] == gone.number]:
                del kept[key]


def _fixed_outputs(graph: GraphModule) -> set[int]:
    """Positions of outputs that depend on no input: an engine may keep them for the next call."""
    varying: set[Node] = set()
    for node in graph.graph.nodes:
        if node.op == "placeholder" or not varying.isdisjoint(node.all_input_nodes):
            varying.add(node)
    outputs: Any = graph.graph.output_node().args[0]
    return {i for i, node in enumerate(outputs) if hasattr(node, "op") and node not in varying}


def _selector(positions: Sequence[int], total: int) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """What takes some of a call's arguments."""
    if len(positions) == total:
        return tuple
    if len(positions) > 1:
        return operator.itemgetter(*positions)
    if positions:
        only = positions[0]
        return lambda args: (args[only],)
    return lambda _: ()
