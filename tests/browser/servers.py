"""Jupyter servers of the browser tests, each with all it writes in a folder of its own."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

START_SECONDS = 90
CELL_MILLISECONDS = 120_000

# The execution indicator says "idle" before there is a kernel; the session itself knows.
KERNEL_IS_IDLE = """() => {
  const kernel = window.jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel;
  return kernel?.connectionStatus === 'connected' && kernel?.status === 'idle';
}"""


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def wait_until_up(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        if server.poll() is not None:
            break
        with (
            contextlib.suppress(urllib.error.URLError, ConnectionError, TimeoutError),
            urllib.request.urlopen(url, timeout=5),
        ):
            return
        time.sleep(0.2)
    pytest.fail(f"The server did not start:\n{log.read_text(encoding='utf-8')[-4000:]}")


@contextlib.contextmanager
def served(home: Path, module: str, *words: str, status: str = "/api/status") -> Iterator[str]:
    """The address of a Jupyter server that keeps all it writes in a folder.

    Parameters
    ----------
    home
        The folder.
    module
        What ``python -m`` starts.
    words
        For its command line, beside where it listens.
    status
        A path that answers once it is up.
    """
    environment = {
        **os.environ,
        "HOME": str(home),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "IPYTHONDIR": str(home / "ipython"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
    }
    port = free_port()
    command = [sys.executable, "-m", module, "--no-browser", f"--port={port}", *words]
    log = home / f"{module}.log"
    with log.open("wb") as stream:
        server = subprocess.Popen(
            command, env=environment, cwd=home, stdout=stream, stderr=subprocess.STDOUT
        )
        try:
            url = f"http://127.0.0.1:{port}"
            wait_until_up(f"{url}{status}", server, log)
            yield url
        finally:
            server.terminate()
            try:
                server.wait(timeout=30)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def server_words(folder: Path) -> list[str]:
    """What a Jupyter server is told that serves a folder to nobody but us."""
    return [
        "--allow-root", "--ip=127.0.0.1", "--ServerApp.port_retries=0",
        f"--ServerApp.root_dir={folder}", "--IdentityProvider.token=", "--ServerApp.password=",
        "--ServerApp.disable_check_xsrf=True",
    ]  # fmt: skip


def write(path: Path, *cells: str) -> None:
    """Write a notebook of these code cells."""
    import nbformat  # takes seconds, and every worker collects this file

    notebook = nbformat.v4.new_notebook(
        cells=[nbformat.v4.new_code_cell(cell.strip()) for cell in cells],
        metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}},
    )
    nbformat.write(notebook, path)
