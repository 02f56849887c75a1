"""``dynamo_ext.compare``: several backends on a function or module, outside of a notebook too."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dynamo_ext.errors import OptionError
from dynamo_ext.records.common import saved
from dynamo_ext.records.comparison import CandidateResult, Comparison
from dynamo_ext.widgets.comparison import columns, static
from dynamo_ext.widgets.comparison.chart import KINDS, Chart

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pandas as pd

    from dynamo_ext.measure.candidates import Backends


class ComparisonResult:
    """A comparison that can be shown, saved and read on.

    ``record`` is what was measured, a frozen ``dynamo_ext.records.comparison.Comparison``: every
    sample, interval and error.
    """

    def __init__(self, record: Comparison) -> None:
        self.record = record

    def __repr__(self) -> str:
        return static.text(self.record)

    def _ipython_display_(self) -> None:
        """Show the table: live in a notebook, as text in a terminal."""
        from dynamo_ext.widgets.comparison.view import display_comparison

        display_comparison(self.record)

    def _repr_html_(self) -> str:
        """Its static form, for front ends that are not IPython's."""
        return static.html(self.record)

    @property
    def best(self) -> CandidateResult | None:
        """The fastest candidate that is right and faster than the baseline, if there is one."""
        return self.record.best

    def __getitem__(self, name: str) -> CandidateResult:
        """One candidate's row; raises ``KeyError`` where no candidate has the name."""
        return {each.name: each for each in self.record.candidates}[name]

    def to_dataframe(self) -> pd.DataFrame:
        """One row a candidate; seconds, bytes, ratios.

        Raises ``OptionError`` where pandas is not installed.
        """
        try:
            import pandas as pd
        except ImportError:
            message = "to_dataframe needs pandas, which is not installed."
            raise OptionError(message, "pip install pandas") from None
        rows = [columns.data(self.record, each) for each in self.record.candidates]
        return pd.DataFrame(rows).set_index("name")

    def plot(self, kind: str = "Speedup", axes: Any = None) -> Any:
        """Draw a chart on matplotlib's ``axes``, which it returns, in the style that is in use.

        Without ``axes`` they are new ones, in a figure of pyplot's.

        ``kind`` is ``Speedup`` (with intervals) or ``Samples``.

        Raises ``OptionError`` for another kind, where there is nothing to draw, or without
        matplotlib.
        """
        if kind not in KINDS:
            msg = f"There is no chart {kind!r}."
            raise OptionError(msg, f"Use {', '.join(KINDS)}.")
        return Chart(self.record, self.record.candidates, kind).plot(axes)

    def to_json(self) -> str:
        """The whole record, every sample included; ``load`` reads it back."""
        return json.dumps(self.record.to_dict())

    @classmethod
    def load(cls, path: str | Path) -> ComparisonResult:
        """A comparison that ``save`` wrote as JSON.

        Raises ``RecordFormatError`` where the file holds no comparison of this version.
        """
        return cls(Comparison.from_dict(json.loads(Path(path).read_text(encoding="utf-8"))))

    def save(self, path: str | Path) -> Path:
        """Write ``.html`` (a page of its own, readable offline), ``.json``, ``.csv`` or ``.txt``.

        Raises ``OptionError`` for another ending.
        """
        forms = {
            ".html": lambda: static.page(self.record),
            ".json": self.to_json,
            ".csv": lambda: self.to_dataframe().to_csv(),
            ".txt": lambda: static.text(self.record),
        }
        return saved(path, "A comparison", forms)


def compare(  # noqa: PLR0913 - a measurement's settings, by keyword
    target: Callable[..., Any],
    args: Sequence[Any] = (),
    backends: Backends = "inductor,onnxrt,openvino",
    *,
    kwargs: Mapping[str, Any] | None = None,
    rounds: int | None = None,
    budget: float = 30.0,
    baseline: str = "eager",
    fp64: bool = False,
    dtype: str | None = None,
    train: bool = False,
    per_graph: bool = False,
    allow_writes: bool = False,
    isolate: bool = False,
    first_run: float | None = 300.0,
    options: Mapping[str, Any] | None = None,
    callables: Mapping[str, Callable[..., Any]] | None = None,
    seed: int = 0,
    accuracy: str | None = None,
    metric: Callable[[Any, Any], float] | None = None,
    check_on: Sequence[Sequence[Any]] = (),
) -> ComparisonResult:
    """Find which backend is faster on some code, whether it is right, and how sure that is.

    Baseline and candidates run interleaved, in a new random order each round; compiling is timed
    apart. Weights, random states, arguments and stdout are as before when it returns.

    Parameters
    ----------
    target
        A function or module.
    args, kwargs
        Its arguments: tensors of any shape and dtype, or anything else.
    backends
        Names (a list, or one string with commas), compiler functions, or a mapping from row names
        to either.
    rounds
        A fixed number of rounds. Without it they go on until every interval is within ±1 %.
    budget
        Seconds to time for, more than 0. Each row has as many, at least 5 and three runs; when
        twice all of them are over, nothing further begins, and rows say so.
    baseline
        ``eager`` is the code as it is, without Dynamo; else one of ``backends``.
    fp64
        Judge each candidate by its distance from float64's results against eager's, too. Without
        it float64 is asked only where a result is beyond eager's tolerance.
    dtype
        ``float16`` or ``bfloat16``: hold weights and inputs in it. The reference is eager at that
        precision.
    train
        Go on to the gradients: backward from the sum of every floating result.
    per_graph
        Also race every captured graph by itself, and the mix of the fastest end to end. Code that
        writes a file, and may not, runs for that alone.
    allow_writes
        Compare code that does what cannot be taken back, in every run: writes or deletes a file,
        starts a process, uses the network. Without it the comparison stops after the first run.
    isolate
        Compile and time each candidate in a process of its own: a crash or a hang is a row.
    first_run
        Seconds of compiling after which a candidate begins nothing further, where ``budget``
        leaves as many; eager runs the rest. ``None`` lifts both. What compiles is not stopped,
        except in a process of its own (``isolate``), which ends after as long beyond ``budget``.
    options
        ``{"threads": 2}`` for all that have the option, ``{"tvm.opt_level": 3}`` for one.
    callables
        Functions of your own, by the names of their rows, that take the target's arguments and
        give its result: a deployed session, a traced module. They are checked and timed like the
        backends, in the same rounds.
    seed
        Of the schedule.
    accuracy
        What results in a lower precision must meet against float64's: ``cosine>=0.9999``,
        ``rel<=1e-2`` (root mean square error), ``top1>=0.99``, or ``metric>=0.95`` of ``metric``.
        ``auto`` races lower precisions then.
    metric
        ``(result, reference) -> float``, for each floating-point result.
    check_on
        Tuples of other arguments: int8 is calibrated on them, and ``accuracy`` is checked on all of
        them together instead.

    Returns
    -------
    ComparisonResult
        A table where it is displayed; ``record`` has every number.

    Raises
    ------
    UnknownBackendError, OptionError
        At once, before anything runs.
    LastingEffectError
        After the first run, where the code does what ``allow_writes`` allows.
    Exception
        Whatever the target raises by itself.
    """
    given = locals()
    from dynamo_ext.backends.options import mapping_of
    from dynamo_ext.capture import targets
    from dynamo_ext.measure.candidates import Candidate, candidates_of
    from dynamo_ext.measure.progress import reporting_to
    from dynamo_ext.measure.remote.compare import compare_anywhere
    from dynamo_ext.measure.settings import OPTIONS, Settings
    from dynamo_ext.measure.workload import FunctionWorkload
    from dynamo_ext.numerics.accuracy_bound import AccuracyBound
    from dynamo_ext.widgets.progress import Waiting

    targets.check(target, "compared", args)
    options = mapping_of("compare", options)
    settings = Settings.of(
        AccuracyBound.parse(accuracy, metric) if accuracy else None,
        tuple(map(tuple, check_on)),
        **{each.name: given[each.name] for each in OPTIONS} | {"dtype": dtype or ""},
    )
    if metric is not None and not accuracy:
        message = "metric needs a bound."
        raise OptionError(message, "Add accuracy, as in accuracy='metric>=0.95'.")
    listed = candidates_of(backends, options, settings)
    if callables and (isolate or settings.dtype):
        message = "Your own callables run in this process, in their own precision."
        raise OptionError(message, "Leave out isolate and dtype, or the callables.")
    workload = FunctionWorkload(target, args, kwargs, train=train)
    for name, function in (callables or {}).items():
        if name in {baseline, *(each.name for each in listed)}:
            message = f"{name} is listed twice."
            raise OptionError(message, "Give the callable another name.")
        listed.append(Candidate(name, "", None, call=workload.instead(function)))
    with Waiting("Comparing", 0.0) as waiting, reporting_to(waiting.show):
        return ComparisonResult(compare_anywhere(workload, listed, settings))
