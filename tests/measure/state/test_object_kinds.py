"""What of a notebook is named as lost between runs, and what is left alone."""

from __future__ import annotations

import socket
import sqlite3
from concurrent.futures import ThreadPoolExecutor

import torch
from IPython.core.interactiveshell import InteractiveShell

import dynamo_ext
from dynamo_ext.measure.state.snapshot import Snapshot


def test_the_work_of_a_pool_of_threads_and_connections_are_named():
    with socket.socket() as made, sqlite3.connect(":memory:") as base, ThreadPoolExecutor() as pool:
        lost = Snapshot({"pool": pool, "made": made, "base": base}).unrestorable
    assert [text.split(" ")[0] for text in lost] == ["pool", "made", "base"]


def test_the_shell_is_not_entered():
    shell = InteractiveShell()
    shell.user_ns["x"] = torch.ones(1)
    kept = Snapshot({"get_ipython": shell.get_ipython})
    assert kept.tensors == kept.unrestorable == []


def test_what_holds_compiled_code_is_no_state_and_a_backend_of_ones_own_is():
    mine = type("Mine", (dynamo_ext.Backend,), {"supports": None})()
    mine.seen = torch.zeros(1)
    kept = Snapshot({"compiled": dynamo_ext.optimize("eager")(torch.relu), "mine": mine})
    assert (kept.unrestorable, len(kept.tensors)) == ([], 1)
