"""Tests that interrupt do so in a run that a shell has started in the background, too."""

from __future__ import annotations

import signal

from tests.capture.live import live


def test_a_cell_is_interrupted_where_the_run_ignores_it() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with live() as cells:
            ran = cells.run("import signal\nsignal.raise_signal(signal.SIGINT)")
        assert isinstance(ran.error, KeyboardInterrupt)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
