"""Whether an engine's first results are right; in int8, which products have to stay in float32."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from torch.fx import GraphModule, Node

from dynamo_ext.backends import crash_records
from dynamo_ext.backends.compile_context import CompileContext
from dynamo_ext.backends.pipeline import sensitive_products
from dynamo_ext.backends.pipeline.calls.engines import Engine, Engines
from dynamo_ext.backends.pipeline.calls.weight_sets import WeightSet
from dynamo_ext.backends.support import ties
from dynamo_ext.backends.support.single_op import is_convolution
from dynamo_ext.interruptions import suppressed
from dynamo_ext.numerics import higher_precision, lowered_precision, verdict
from dynamo_ext.records.common import FULL
from dynamo_ext.records.graph import KeptOperation
from dynamo_ext.torch_private import fx_nodes

Ran = tuple[Engine, Sequence[Any]]
"""An engine, and what it gave for a call."""


class Reference(NamedTuple):
    """What a call should give: eager's results, and those at a higher precision where they count.

    In the code's own precision ``exact`` are eager's.
    """

    eager: Sequence[Any]
    exact: Sequence[Any]


class EngineCheck:
    """Compares what a partition's engines give with eager, or in a lower precision with float64.

    ``graph`` is the partition, as eager runs it. ``kept`` has the names of products that later
    engines leave in float32.
    """

    def __init__(self, graph: GraphModule, context: CompileContext, engines: Engines) -> None:
        self._graph = graph
        self._context = context
        self._engines = engines
        self._searched = False
        self._reported: list[str] = []
        self.kept: tuple[str, ...] = ()

    def trusted(
        self, args: Sequence[Any], constants: WeightSet, ran: Ran, expected: Sequence[Any]
    ) -> Ran | str:
        """The engine to trust with what it gives, or why there is none.

        ``expected`` is what eager gives. An engine that is merely too far off for the user's bound
        is trusted, since a graph's results are judged as a whole; but not one that met it before.
        """
        (engine, outputs), right = ran, Reference(expected, expected)
        if self._context.precision == FULL:
            wrong = ties.disagreement(self._graph, args, outputs, expected, rounding=True)
        else:
            right = Reference(expected, higher_precision.exact(self._graph, args, expected))
            wrong = self._lost(outputs, right)
        missed = "" if wrong else self._context.missed(outputs, right.exact)
        if (wrong or missed) and not engine.doubted:
            again = self._again(args, constants, outputs, right, wrong=bool(wrong))
            if again is not None:
                return again
        if missed and engine.doubted and not engine.missed:
            return missed
        engine.missed = engine.missed or bool(missed)
        return wrong or ran

    def forget_kept(self) -> None:
        """Have the report say nothing more of products that were kept."""
        for name in self._reported:
            self._context.journal.kept.pop(name, None)

    def _lost(self, outputs: Sequence[Any], right: Reference) -> str:
        """What an engine in a lower precision gives that is too far off, as one sentence."""
        return verdict.disagreement(
            outputs, right.eager, lambda: right.exact, self._context.precision
        )

    def _again(
        self,
        args: Sequence[Any],
        constants: WeightSet,
        outputs: Sequence[Any],
        right: Reference,
        *,
        wrong: bool,
    ) -> Ran | None:
        """An engine in int8 that is right with products kept in float32, and what it gives.

        ``None`` where there is none. Later engines of the partition keep the same products.
        """
        if self._context.precision != "int8" or self._searched:
            return None
        errors: list[tuple[int, float]] = []
        made: list[Ran] = []

        def tried(count: int) -> bool:
            engine = self._engines.build(args, constants, [each.name for each in ranked[:count]])
            with crash_records.during(self._context.attempt, "first running"):
                outputs = engine.first_call(args)
            made[:] = [(engine, outputs)]
            errors.append((count, lowered_precision.largest_error(outputs, right.exact)))
            return not (self._lost(outputs, right) or self._context.missed(outputs, right.exact))

        fewest = 0
        # If this raises, no such engine is found.
        with suppressed(Exception):
            errors.append((0, lowered_precision.largest_error(outputs, right.exact)))
            products = self._engines.products(constants)
            if not self._engines.calibrated:
                products = [n for n in products if not is_convolution(n)]
            lost = sensitive_products.errors(self._graph, [node.name for node in products], args)
            ranked = sorted(lost, key=lambda node: -lost[node])
            bound = None if wrong else self._context.bound
            if sensitive_products.hopeless(lost.values(), errors[0][1], bound):
                return None
            self._searched = True
            fewest = sensitive_products.fewest(len(ranked), tried)
        if not fewest:
            return None
        self._keep(ranked[:fewest], dict(errors))
        return made[0]

    def _keep(self, operations: Sequence[Node], errors: dict[int, float]) -> None:
        """Have later engines keep these products; ``errors`` are by how many of them were kept."""
        self.kept = tuple(node.name for node in operations)
        most = 0.0 if self._context.bound else lowered_precision.BOUNDS[self._context.precision]
        for position, node in enumerate(operations):
            name = fx_nodes.captured_name(node) or node.name
            self._reported.append(name)
            without = errors[max(count for count in errors if count <= position)]
            self._context.journal.kept[name] = KeptOperation(
                name, without if most < without < math.inf else None, errors[len(operations)]
            )
