"""Plain data: what happened in a run, without torch and without tensors."""

from __future__ import annotations

from dynamo_ext.records.autotune import (
    BaselineComparison,
    GraphCandidateResult,
    GraphRace,
    OnlineTrial,
)
from dynamo_ext.records.common import Availability, BackendInfo, CodeBlock, OptionSpec, SourceLine
from dynamo_ext.records.report import (
    SCHEMA_VERSION,
    BreakKind,
    Bytecode,
    Fallback,
    FallbackCause,
    FallbackScope,
    FallbackStage,
    Frame,
    FrameOutcome,
    Graph,
    GraphBreak,
    Guard,
    Mode,
    Operation,
    Partition,
    PartitionRole,
    Recompile,
    RecompileKind,
    Report,
)

__all__ = [
    "SCHEMA_VERSION",
    "Availability",
    "BackendInfo",
    "BaselineComparison",
    "BreakKind",
    "Bytecode",
    "CodeBlock",
    "Fallback",
    "FallbackCause",
    "FallbackScope",
    "FallbackStage",
    "Frame",
    "FrameOutcome",
    "Graph",
    "GraphBreak",
    "GraphCandidateResult",
    "GraphRace",
    "Guard",
    "Mode",
    "OnlineTrial",
    "Operation",
    "OptionSpec",
    "Partition",
    "PartitionRole",
    "Recompile",
    "RecompileKind",
    "Report",
    "SourceLine",
]
