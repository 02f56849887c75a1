"""What engines have in common that are asked about an operation by giving them that one."""

import contextlib
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch.fx import Node

from dynamo_ext.backends import fork_safety
from dynamo_ext.backends.base import (
    Backend,
    Lowered,
    LoweringError,
    LoweringRequest,
    StayEager,
    Support,
)
from dynamo_ext.backends.support import data_checks, trial
from dynamo_ext.backends.support.support_cache import Answers
from dynamo_ext.backends.torch_private.decompositions import decompositions_of, gpu_attention
from dynamo_ext.errors import one_line
from dynamo_ext.torch_private import dispatch, fx_nodes


class TriedBackend(Backend):
    """Takes partitions; what it takes of them is found by trying, and kept for its likes."""

    engine: str = ""
    """Its name in sentences."""

    whole: Sequence[str] = ()
    """Overloads of ATen that are one operation in the engine (``gelu.default``).

    For training they are decomposed: the backward graph reads statistics of normalisations.
    """

    cut_up: Sequence[str] = ()
    """Those that are decomposed although core ATen has them whole."""

    own: Mapping[Any, Callable[..., Any]] = {}
    """What it decomposes by a formula of its own, by overload."""

    strict: bool = False
    """Whether trials ask also what torch's own kernels answer differently."""

    checks_data: bool = False
    """Whether partitions come with a check of data for which torch raises (``data_checks``)."""

    def __init__(self) -> None:
        # The folder has the name of the extra where there is one.
        self._answers = Answers(self.extra or self.name, self.packages)

    @abstractmethod
    def unsupported_reason(self, node: Node) -> str:
        """Why a node cannot be given to the engine, as far as shows without trying; or nothing."""
        ...

    @abstractmethod
    def compiled(self, request: LoweringRequest) -> Lowered:
        """What a partition becomes; a trial has no options."""
        ...

    def quiet(self) -> contextlib.AbstractContextManager[None]:
        """Keeps the engine from printing, logging and warning in a cell."""
        return contextlib.nullcontext()

    def error_summary(self, error: BaseException) -> str:
        """An exception of the engine in one line."""
        return one_line(error, with_type=True)

    def decompositions(
        self, table: dict[Any, Callable[..., Any]], *, training: bool
    ) -> dict[Any, Callable[..., Any]]:
        """Keep whole what the engine has as one operation; decompose more of what it has not."""
        if self.fork_unsafe_runtime:
            fork_safety.begin(self.fork_unsafe_runtime)
        whole = set() if training else {fx_nodes.overload(name) for name in self.whole}
        kept = {op: cut for op, cut in table.items() if op not in whole}
        if not training:
            kept |= gpu_attention()
        return {**kept, **decompositions_of(self.cut_up), **self.own}

    def supports(self, node: Node) -> Support:
        """Give the engine the one operation; the answer is kept for its likes."""
        reason = self.unsupported_reason(node) or self._answers.refusal(
            node, self.attempt, self.error_summary
        )
        return Support(supported=not reason, reason=reason)

    def attempt(self, node: Node) -> str:
        """Compare the one operation with eager: what was wrong, or nothing. May raise anything."""
        with dispatch.outside_modes(), self.quiet():
            return trial.disagreement(node, self._checked, self.engine, strict=self.strict)

    def _checked(self, request: LoweringRequest) -> Lowered:
        watched = data_checks.with_check(request.graph) if self.checks_data else None
        if watched is None:
            return self.compiled(request)
        lowered = self.compiled(replace(request, graph=watched))
        return replace(lowered, run=data_checks.raising(lowered.run))

    def lower_for(self, request: LoweringRequest) -> Lowered:
        """Compile; what the engine raises is a ``LoweringError`` in one line."""
        try:
            with self.quiet():
                return self._checked(request)
        except StayEager:
            raise
        except Exception as error:
            raise LoweringError(self.error_summary(error)) from error
