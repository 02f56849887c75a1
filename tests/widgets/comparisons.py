"""Comparisons made by hand: every verdict, every kind of end."""

from __future__ import annotations

import dataclasses

from dynamo_ext.records import comparison as records
from dynamo_ext.records.machine import MachineLimits, Work

ROUNDS = 40
LONG = "RuntimeError: the converter met an operator that it does not know, aten::foo, " * 6
OFF = "y: 12 of 4,096 elements differ."
CLOSE = records.Accuracy(
    "eager", 1 - 3e-12, 2.1e-7, 4e-7, within=True, outputs=1, dtype="float32", sqnr=128.0
)
FAR = records.Accuracy("eager", 0.9871, 0.31, 0.12, within=False, outputs=1, detail=OFF)


def timing(median: float) -> records.Timing:
    spread = [1 + (index - ROUNDS // 2) / 1000 for index in range(ROUNDS)]
    return records.Timing(tuple(median * each for each in spread))


def speedup(ratio: float, spread: float = 0.03) -> records.Speedup:
    return records.Speedup(ratio, ratio * (1 - spread), ratio * (1 + spread), ROUNDS)


def row(name: str, median: float, ratio: float, **changes: object) -> records.CandidateResult:
    made = records.CandidateResult(
        name,
        name,
        "measured",
        timing=timing(median),
        speedup=speedup(ratio),
        first_call_seconds=4.1,
        compile_seconds=3.9,
        peak_bytes=1_300_000,
        operations=41,
        in_engine=38,
        graphs=2,
        breaks=1,
        accuracy=(CLOSE, dataclasses.replace(CLOSE, reference="float64")),
    )
    return dataclasses.replace(made, **changes)


EAGER = records.CandidateResult(
    "eager", "", "measured", timing=timing(4.2e-3), first_call_seconds=0.02
)
FASTER = (
    row("inductor", 2.3e-3, 1.82, options=(("mode", "max-autotune"),)),
    row("openvino", 2.25e-3, 1.87, in_engine=41),
)
SAME_AND_SLOWER = (row("onnxrt", 4.19e-3, 1.003, speedup=speedup(1.003)), row("ts", 12e-3, 0.35))
NOT_COUNTED = (
    row("tvm", 1.1e-3, 3.8, outcome="wrong", reason=OFF, remedy="Look.", accuracy=(FAR,)),
    row("lazy", 4.3e-3, 0.98, outcome="eager", reason="aten.foo: it fell back", in_engine=0),
)
GONE = (
    records.CandidateResult(
        "tensorrt",
        "tensorrt",
        "unavailable",
        "torch_tensorrt is not installed.",
        "pip install torch-tensorrt",
    ),
    records.CandidateResult("xla", "xla", "failed", LONG, "Use a smaller batch."),
    records.CandidateResult("nvfuser", "nvfuser", "unmeasured", "Stopped before its turn."),
)
SOURCE = "def forward(self, x): ..."
GRAPHS = (
    records.GraphComparison(
        "g0",
        10,
        2,
        (
            records.GraphTime("eager", "measured", timing(100e-6)),
            records.GraphTime("openvino", "measured", timing(50e-6), speedup(2.0)),
            records.GraphTime("tvm", "wrong", reason=OFF),
        ),
        "openvino",
        SOURCE,
    ),
    records.GraphComparison(
        "g1",
        2,
        1,
        (
            records.GraphTime("eager", "measured", timing(2e-6)),
            records.GraphTime("openvino", "eager", timing(5e-6), speedup(0.4)),
            records.GraphTime("tvm", "failed", reason="no"),
        ),
        "eager",
        SOURCE,
    ),
)
FULL = records.Comparison(
    "Cell In[7]",
    "eager",
    (EAGER, *FASTER, *SAME_AND_SLOWER, *NOT_COUNTED, *GONE),
    graphs=GRAPHS,
    mix=records.Mix((("g0", "openvino"), ("g1", "eager")), 1.9, speedup(1.5)),
    rounds=ROUNDS,
    seconds=41.2,
    budget=30,
    device="cpu",
    threads=2,
    versions=(("torch", "2.13.0"),),
    notes=("The generator `loader` cannot be put back between runs.",),
)
MACHINE = MachineLimits("Some CPU", 2, "2", (("float32", 1e11), ("bf16", 3e11)), ((1 << 30, 1e10),))
WORK = Work(200_000_000, 1_000_000)
EMPTY = records.Comparison("f", "eager", (records.CandidateResult("eager", "", "unmeasured"),))


def rude(words: str) -> records.Comparison:
    """Every text of a comparison in the user's own words."""
    wrong = dataclasses.replace(FAR, reference=words, dtype=words, detail=words)
    others = (
        row(words, 1e-3, 4.0, options=((words, words),)),
        row(f"{words}2", 1e-3, 4.0, outcome="wrong", reason=words, remedy=words, accuracy=(wrong,)),
        records.CandidateResult(f"{words}3", words, "failed", words * 9, words),
        row("$\\frac{x$ 模型", 2e-3, 2.0),
    )
    times = (
        records.GraphTime(words, "failed", reason=words),
        records.GraphTime("eager", "measured", timing(1e-6)),
    )
    return dataclasses.replace(
        FULL,
        title=words,
        candidates=(EAGER, *others),
        graphs=(records.GraphComparison(words, 1, 1, times, words, words),),
        mix=records.Mix(((words, words),), 1.2),
        notes=(words,),
        device=words,
        versions=((words, words),),
    )


COMPARISONS = {
    "full": FULL,
    "none": dataclasses.replace(
        FULL, candidates=(EAGER, *SAME_AND_SLOWER, *NOT_COUNTED), graphs=(), mix=None
    ),
    "failed": dataclasses.replace(FULL, candidates=(EAGER, *GONE), graphs=(), mix=None),
    "partial": dataclasses.replace(FULL, partial=True, interrupted=True, rounds=12),
    "empty": EMPTY,
}
