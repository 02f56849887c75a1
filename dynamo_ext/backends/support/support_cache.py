"""What an engine says of single operations, asked once and known for their likes.

Answers are kept on disk for later processes, for as long as the engine's code, its packages and
the processor stay the same.
"""

import atexit
import functools
import hashlib
import importlib.util
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import torch
from torch.fx import Node

from dynamo_ext.backends.base import LoweringError
from dynamo_ext.backends.disk_cache import Row, Table, device_model
from dynamo_ext.backends.support.single_op import signature
from dynamo_ext.interruptions import failures

_BATCH = 32
"""New answers that are written together: each writing takes some milliseconds."""


class AnswerTable(Table):
    """Reasons of refusals by operation and engine; an empty one where the engine takes it."""

    name = "answers"


class Answers:
    """What an engine, by the name of its folder, said of operations that it was given."""

    def __init__(self, engine: str, packages: Sequence[str]) -> None:
        engines = f"backends/engines/{engine}", "backends/engines/onnx"
        shared = "backends/support", "backends/torch_private", "torch_private", "numerics"
        # Of the code that runs, which an upgrade may replace on disk meanwhile.
        code = digest_of_code(*engines, *shared, "backends/fx_graph.py")
        self.place = functools.cache(functools.partial(_place, engine, code, packages))
        self._new: list[Row] = []
        _all.append(self)

    def refusal(
        self,
        node: Node,
        attempt: Callable[[Node], str],
        error_summary: Callable[[BaseException], str],
    ) -> str:
        """Why the engine refuses a node, by ``attempt`` where its likes were not tried; or nothing.

        What that raises is a reason, as ``error_summary`` has it.
        """
        text = repr(signature(node))
        key = hashlib.sha256(text.encode()).hexdigest()[:32]
        if key not in self.known:
            lasts = " at 0x" not in text
            try:
                reason = attempt(node)
            except failures() as error:  # the engine's own words are the reason
                reason = error_summary(error)[:300] or type(error).__name__
                # Another, as one for want of memory, may not come again.
                lasts = lasts and isinstance(error, LoweringError)
            self.learn(key, reason, lasts=lasts)
        return self.known[key]

    @functools.cached_property
    def known(self) -> dict[str, str]:
        """What is known, from disk too."""
        rows = AnswerTable().rows("place = ?", self.place())
        return {str(key): str(reason) for key, _, reason, _ in rows}

    def learn(self, key: str, answer: str, *, lasts: bool = True) -> None:
        """Know an answer from now on, and in later processes where it ``lasts``."""
        self.known[key] = answer
        if lasts:
            self._new.append((key, self.place(), answer, time.time()))
        if len(self._new) >= _BATCH:
            self.save()

    def save(self) -> None:
        """Write the new answers to disk."""
        new, self._new = self._new, []
        if new:
            AnswerTable().keep(new)


_all: list[Answers] = []


def clear() -> int:
    """Forget all answers, here and on disk; how many there were."""
    _save()
    for answers in _all:
        answers.known = {}
    return AnswerTable().clear()


@atexit.register
def _save() -> None:
    for answers in _all:
        answers.save()


def _place(engine: str, code: str, packages: Sequence[str]) -> str:
    """What an engine's answers hold for: code, packages, devices."""
    facts = [code, *surroundings(packages)]
    return f"{engine} {hashlib.sha256(repr(facts).encode()).hexdigest()}"


def digest_of_code(*places: str) -> str:
    """A digest of files and folders of this package."""
    ours, found = Path(__file__).parents[2], hashlib.sha256()
    for place in places:
        for path in sorted(ours.glob(place if place.endswith(".py") else f"{place}/**/*.py")):
            found.update(path.read_bytes())
    return found.hexdigest()


def surroundings(packages: Sequence[str]) -> Iterator[object]:
    """Torch, packages and devices, as facts that change with any of them."""
    for package in ("torch", "numpy", *packages):
        found = importlib.util.find_spec(package)
        if found is not None and found.origin:
            # A new version is a new file: some packages do not tell theirs unless imported.
            facts = Path(found.origin).stat()
            yield found.origin, facts.st_size, facts.st_mtime_ns
    yield device_model(torch.device("cpu"))
    if torch.cuda.is_available():
        yield device_model(torch.device("cuda"))
