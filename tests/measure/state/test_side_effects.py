"""What leaves this process is heard, and nothing else is."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading

from dynamo_ext.measure.state.side_effects import effects


def test_writing_is_heard_and_reading_is_not(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("x")
    with effects() as seen:
        path.read_text()
    assert seen == []
    with effects() as seen:
        path.write_text("y")
        path.write_text("z")
        path.unlink()
    assert seen == [f"writes {path}", f"deletes {path}"]


def test_processes_and_the_network_are_heard():
    with effects() as seen:
        subprocess.run([sys.executable, "-c", ""], check=True)
        with socket.socket() as connection:
            connection.settimeout(0.1)
            connection.connect_ex(("127.0.0.1", 9))
    assert any("starts a process" in text for text in seen)
    assert any("network" in text for text in seen)


def test_other_threads_and_other_times_are_not(tmp_path):
    path = tmp_path / "a.txt"
    with effects() as seen:
        thread = threading.Thread(target=lambda: path.write_text("x"))
        thread.start()
        thread.join()
    path.write_text("y")
    assert seen == []
