"""What of a notebook is named as lost between runs, and what is left alone."""

from __future__ import annotations

import socket
import sqlite3
from concurrent.futures import ThreadPoolExecutor

import torch
from IPython.core.interactiveshell import InteractiveShell

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
