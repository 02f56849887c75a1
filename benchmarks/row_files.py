"""Where rows are stored between runs: a folder for each machine, a file for each part."""

from __future__ import annotations

from pathlib import Path

from benchmarks import machine
from benchmarks.zoo.form import USUAL, Form

FOLDER = Path(__file__).parent / "results"


def own(part: str, form: Form = USUAL) -> Path:
    """The file of a part's rows on this machine, as ``results/amd-epyc-2-cores/auto.json``.

    Parameters
    ----------
    part
        Of this package.
    form
        Rows of another form lie in a file of their own: ``auto-cuda-full.json``.
    """
    return FOLDER / machine.name() / f"{part.replace('_', '-')}{form.suffix}.json"


def others(part: str, form: Form = USUAL) -> list[Path]:
    """The same part's and form's files of other machines."""
    mine = own(part, form)
    return sorted(set(FOLDER.glob(f"*/{mine.name}")) - {mine})
