"""What every test shares: a torch that starts clean, and no network."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from unittest import mock

import pytest

# Before anything imports transformers or jupyter: neither may look for updates or models.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("JUPYTER_PLATFORM_DIRS", "1")


ALONE = {"auto", "browser", "measure"}
"""Folders whose tests go by the clock, or have many processes of their own."""


LONG = {"test_zoo.py", "test_comparing_backends.py", "test_operators.py", "test_together.py"}
"""Files that take minutes: begun first, so that none of them is left when all else is done."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    items.sort(key=lambda item: item.path.name not in LONG)
    for item in items:
        if item.path.relative_to(here).parts[0] in ALONE:
            item.add_marker(pytest.mark.alone)


@pytest.fixture(scope="module")
def dask_client():
    dask = pytest.importorskip("dask")
    distributed = pytest.importorskip("distributed")
    # Dask sets its workers' thread counts in this process's environment, for good.
    with mock.patch.dict(os.environ), warnings.catch_warnings():
        # Dask's own sockets and event loops are closed by the garbage collector.
        warnings.simplefilter("ignore", ResourceWarning)
        with (
            # A task that ends its worker is tried three times more otherwise.
            dask.config.set({"distributed.scheduler.allowed-failures": 0}),
            distributed.LocalCluster(
                n_workers=2, processes=True, threads_per_worker=1, dashboard_address=None
            ) as cluster,
            distributed.Client(cluster) as client,
        ):
            yield client
