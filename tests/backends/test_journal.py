"""What a backend's journal keeps of what happened inside it."""

from __future__ import annotations

from dynamo_ext.backends.journal import Journal, active, current
from dynamo_ext.records.graph import KeptOperation


def test_a_backend_that_comes_back_has_what_it_said() -> None:
    ours, first, second = Journal("g0"), Journal("first"), Journal("second")
    first.lowered["inference_0"] = 3
    first.add_fallback("run", "partition", partition="inference_0", message="It raised.")
    ours.merge(first)
    ours.start_again()
    ours.merge(second)
    assert not ours.lowered
    assert not ours.fallbacks
    ours.start_again()
    ours.merge(first)
    first.add_fallback("run", "partition", partition="inference_1", message="It raised.")
    assert ours.lowered == {"inference_0": 3}
    assert len(ours.fallbacks) == 2


def test_what_a_backend_says_goes_to_what_listens_to_its_graph() -> None:
    heard: list[str] = []
    with active(Journal(), heard.append) as journal:
        current().tell("it compiles")
        with active(Journal()):
            current().tell("a candidate of auto's")
    journal.tell("after")
    assert heard == ["it compiles"]


def test_another_journal_takes_kept_products_over() -> None:
    journal, other = Journal(), Journal()
    other.kept["p"] = KeptOperation("p", 0.03, 0.002)
    journal.merge(other)
    other.kept["q"] = KeptOperation("q", 0.04, 0.002)
    assert list(journal.kept) == ["p", "q"]
