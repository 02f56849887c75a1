"""What Dynamo's tracing does differently while a frame of ours compiles, by topic."""

import importlib
from pathlib import Path

from dynamo_ext.torch_private import version

for _path in sorted(Path(__file__).parent.glob("[!_]*.py")):
    if not version.reason_without(version.feature_of(_path)):
        importlib.import_module(f"{__name__}.{_path.stem}")
