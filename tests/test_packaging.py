"""What `pip install` leaves behind: names, entry points, types, and pins that agree."""

from __future__ import annotations

import importlib.metadata
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from dynamo_ext.backends import registry

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
PINS = {
    canonicalize_name(pin.name): pin
    for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    if line.strip() and not line.startswith("#")
    for pin in [Requirement(line)]
}
ALL_REQUIREMENTS = [
    Requirement(text)
    for group in [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    for text in group
    if not text.startswith("dynamo-ext")
]


@pytest.mark.parametrize("requirement", ALL_REQUIREMENTS, ids=str)
def test_every_dependency_is_pinned_inside_its_range(requirement):
    pin = PINS[canonicalize_name(requirement.name)]
    [specifier] = pin.specifier
    assert specifier.operator == "=="
    assert requirement.specifier.contains(specifier.version)


def test_no_torch_is_too_new_for_pip():
    """Else `pip install .` would replace a torch that is installed by an older one."""
    [torch] = [each for each in ALL_REQUIREMENTS if each.name == "torch"]
    assert all(torch.specifier.contains(version) for version in ("2.11.0", "2.15.0", "99.0"))


def test_what_runs_here_is_what_is_pinned():
    for name, pin in PINS.items():
        if pin.marker and not pin.marker.evaluate():
            continue
        try:
            version = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # needed to build, or on another platform
        assert pin.specifier.contains(version), f"{name} is {version}, pinned {pin.specifier}"


def test_entry_points_are_installed_and_load():
    group = importlib.metadata.entry_points(group="torch_dynamo_backends")
    ours = {entry.name: entry for entry in group if entry.value.startswith("dynamo_ext.")}
    assert set(ours) == {"onnxrt", *(f"dx_{name}" for name in registry.OURS)}
    assert all(entry.load().__name__ == name.removeprefix("dx_") for name, entry in ours.items())


def test_torch_finds_the_backends_with_no_import_of_ours():
    program = """
import sys
import torch

class Double(torch.nn.Module):
    def forward(self, x):
        return x * 2

x = torch.arange(4.0)
assert "dynamo_ext" not in sys.modules
for backend in ("dx_eager", "dx_inductor", "dx_onnxrt", "onnxrt"):
    torch.compiler.reset()
    assert torch.equal(torch.compile(Double(), backend=backend)(x), x * 2), backend
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=240)


def test_version_is_written_once():
    import dynamo_ext

    assert dynamo_ext.__version__ == PROJECT["version"]
    assert importlib.metadata.version("dynamo-ext") == PROJECT["version"]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## {re.escape(PROJECT['version'])}\b", changelog, re.MULTILINE)


def test_types_are_shipped():
    import dynamo_ext

    assert (Path(dynamo_ext.__file__).parent / "py.typed").is_file()


def test_readme_points_at_files_that_exist():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    targets = re.findall(r"\]\((?!https?://|#)([^)#]+)", readme)
    assert targets
    assert [target for target in targets if not (ROOT / target).exists()] == []


def test_ci_calls_the_readmes_test_command():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make test " in readme
    assert "make test-sweeps " in readme
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert script.rstrip().splitlines()[-1] == "make --keep-going test test-sweeps test-newer-torch"
