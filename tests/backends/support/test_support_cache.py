"""What an engine says of operations: asked once, and known for their likes alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from dynamo_ext.backends import disk_cache, registry
from dynamo_ext.backends.base import Lowered, LoweringError, Support
from dynamo_ext.backends.support import support_cache, trial
from dynamo_ext.backends.support.support_cache import Answers, AnswerTable


def node(*shapes: tuple[int, ...], same: bool = False, dtype: Any = torch.float32) -> torch.fx.Node:
    graph = torch.fx.Graph()
    inputs = []
    for number, shape in enumerate(shapes):
        source = graph.placeholder(f"x{number}")
        source.meta["val"] = torch.ones(shape, dtype=dtype)
        inputs.append(source)
    made = graph.call_function(
        torch.ops.aten.sub.Tensor, (inputs[0], inputs[0] if same else inputs[-1])
    )
    made.meta["val"] = torch.ones(shapes[0], dtype=dtype)
    return made


class Engine(Answers):
    """An engine's answers, with what tries an operation."""

    def __init__(self, attempt: Callable[[torch.fx.Node], str], name: str = "xla") -> None:
        super().__init__(name, ())
        self.attempt = attempt

    def __call__(self, each: torch.fx.Node) -> str:
        return self.refusal(each, self.attempt, lambda error: f"It said: {error}")


def asking(
    wrong: str = "", error: Exception | None = None, engine: str = "xla"
) -> tuple[Engine, list[torch.fx.Node]]:
    asked: list[torch.fx.Node] = []

    def attempt(each: torch.fx.Node) -> str:
        asked.append(each)
        if error is not None:
            raise error
        return wrong

    return Engine(attempt, engine), asked


def test_likes_are_asked_once() -> None:
    answers, asked = asking()
    assert answers(node((3, 4), (3, 4))) == ""
    assert answers(node((5, 6), (5, 6))) == ""
    assert len(asked) == 1
    answers(node((3,), (3,)))
    answers(node((3, 4), (3, 4), dtype=torch.int64))
    assert len(asked) == 3


def test_one_input_twice_is_another_matter_than_two() -> None:
    answers, asked = asking()
    answers(node((3, 4), (3, 4), same=True))
    answers(node((3, 4), (3, 4)))
    assert len(asked) == 2


def test_what_is_wrong_is_the_reason_and_errors_are_put_in_words() -> None:
    answers, _ = asking(wrong="3 values differ")
    assert answers(node((3,), (3,))) == "3 values differ"
    answers, asked = asking(error=ValueError("no kernel"))
    for _ in range(2):
        assert answers(node((3,), (3,))) == "It said: no kernel"
    assert len(asked) == 1


def test_what_is_refused_at_once_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = registry.get("xla")
    monkeypatch.setattr(backend, "unsupported_reason", lambda _: "Never that.")
    monkeypatch.setattr(backend, "attempt", lambda _: pytest.fail("It was tried."))
    answer = backend.supports(node((3,), (3,)))
    assert answer == Support(supported=False, reason="Never that.")


@pytest.fixture(autouse=True)
def disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> Any:
    monkeypatch.setenv(disk_cache.FOLDER, str(tmp_path))
    monkeypatch.setattr(support_cache, "_all", [])
    return tmp_path / "cache.sqlite"


@pytest.mark.parametrize("wrong", ["", "3 values differ"])
def test_another_process_knows_the_answer(disk: Any, wrong: str) -> None:
    first, _ = asking(wrong=wrong, engine="xla")
    first(node((3,), (3,)))
    first.save()
    second, asked = asking(wrong="another", engine="xla")
    assert second(node((5,), (5,))) == wrong
    assert not asked
    other, asked = asking(engine="tvm")
    assert other(node((3,), (3,))) == ""
    assert len(asked) == 1


def test_an_engine_that_changed_is_asked_again(disk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    first, _ = asking(engine="xla")
    first(node((3,), (3,)))
    first.save()
    monkeypatch.setattr(support_cache, "device_model", lambda _: "another processor")
    second, asked = asking(engine="xla")
    second(node((3,), (3,)))
    assert len(asked) == 1


def test_an_upgrade_meanwhile_does_not_get_the_answers_of_the_code_that_runs(
    disk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, _ = asking(engine="xla")
    monkeypatch.setattr(Path, "read_bytes", lambda _: b"another version")
    running(node((3,), (3,)))
    running.save()
    upgraded, asked = asking(engine="xla")
    upgraded(node((3,), (3,)))
    assert len(asked) == 1


@pytest.mark.parametrize(("error", "lasts"), [(LoweringError("no"), True), (MemoryError(), False)])
def test_an_error_that_may_not_come_again_is_not_kept(
    disk: Any, error: Exception, lasts: bool
) -> None:
    answers, _ = asking(error=error, engine="xla")
    assert answers(node((3,), (3,)))
    answers.save()
    assert len(AnswerTable().rows()) == lasts


@pytest.mark.parametrize("first", [0, 1])
def test_what_eager_had_no_memory_for_is_not_kept(
    disk: Any, monkeypatch: pytest.MonkeyPatch, first: int
) -> None:
    alone = trial.alone

    def scarce(*of: Any) -> Any:
        graph = alone(*of)
        left = [graph.forward] * first
        # On a CPU torch raises a plain RuntimeError.
        error = torch.OutOfMemoryError if first else RuntimeError

        def forward(*data: Any) -> Any:
            if not left:
                raise error
            return left.pop()(*data)

        graph.forward = forward
        return graph

    def attempt(each: torch.fx.Node) -> str:
        return trial.disagreement(each, lambda _: Lowered(lambda *data: [torch.sub(*data)]), "XLA")

    monkeypatch.setattr(trial, "alone", scarce)
    answers = Engine(attempt, "xla")
    assert answers(node((3,), (3,)))
    answers.save()
    assert not AnswerTable().rows()


def test_answers_are_written_in_batches_and_cleared(
    disk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(support_cache, "_BATCH", 2)
    answers, asked = asking(engine="xla")
    answers(node((3,), (3,)))
    assert not disk.exists()
    answers(node((3, 4), (3, 4)))
    assert len(AnswerTable().rows()) == 2
    assert support_cache.clear() == 2
    answers(node((3,), (3,)))
    assert len(asked) == 3


def test_the_oldest_rows_go_and_damage_is_put_aside(
    disk: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AnswerTable, "most", 2)
    AnswerTable().keep([(str(made), "p", "", made) for made in (3.0, 1.0, 2.0)])
    assert [row[0] for row in AnswerTable().rows()] == ["3.0", "2.0"]
    disk.write_bytes(b"no database" * 100)
    answers, asked = asking(engine="xla")
    with pytest.warns(disk_cache.FallbackWarning, match="damaged"):
        assert answers(node((3,), (3,))) == ""
    assert len(asked) == 1
