"""The private names of torch's that each feature uses, looked for before any of them is imported.

They are read off the sources: of a torch that lacks one, a sentence says which, and what is off.
Names looked up by ``getattr`` are not needed: the code there does without them.
"""

import ast
import contextlib
import functools
import pkgutil
from collections.abc import Iterator
from pathlib import Path

from dynamo_ext.errors import UnsupportedTorchError

NUMBERS = "numbers that change from call to call"
SEEN_ON = {
    "2.11.0": {NUMBERS},
    "2.12.1": {NUMBERS},
    "2.13.0": set[str](),
    "2.14.1": set[str](),
    "2.15.0": set[str](),
}
"""Versions of torch that the tests have run on, the oldest first, and the features they lack."""

REMEDY = "Install torch 2.13.0."
"""With it every feature works."""

CORE = "capturing code"
OLDER = "repairing torch 2.11 and 2.12"
_BACKENDS = "every backend but eager"
_PATCHES = "capture/torch_private/patches"
FEATURES: dict[str, tuple[str, ...]] = {
    CORE: ("torch_private", "capture/torch_private"),
    NUMBERS: (f"{_PATCHES}/varying_floats.py",),
    "lists that grow": (f"{_PATCHES}/growing_lists.py",),
    "compiling without timing guards": (f"{_PATCHES}/guard_timing.py",),
    "recurrent layers, masked transformers": (f"{_PATCHES}/torch_layers.py",),
    OLDER: (f"{_PATCHES}/older_torch.py",),
    _BACKENDS: ("backends/torch_private",),
}
"""What does not work without certain files, and their folders, as a user calls it.

A file that is listed belongs to that feature alone. Each folder of an engine is a feature, too.
"""

OR = " or "
"""Between the names that versions of torch give to one thing."""

_HOME = Path(__file__).parents[1]
_ENGINES = "dynamo_ext.backends.engines."


def require() -> None:
    """Raise ``UnsupportedTorchError`` where this torch lacks a name that capturing code uses."""
    if reason := reason_without(CORE):
        raise UnsupportedTorchError(reason, REMEDY)


def reason_without(feature: str) -> str:
    """Why a feature is off, as a sentence; empty where this torch has all that it uses."""
    lacking = missing(feature)
    if not lacking:
        return ""
    import torch

    shown = ", ".join(lacking[:3]) + (f" and {len(lacking) - 3} more" if lacking[3:] else "")
    return f"torch {torch.__version__} has no {shown}, which {feature} needs."


def lost_features() -> list[str]:
    """The features beside backends that are off on this torch, of those that it needs."""
    import torch

    apart = {CORE, _BACKENDS} if minor(torch.__version__) in OLDER else {CORE, _BACKENDS, OLDER}
    return [each for each in FEATURES if each not in apart and missing(each)]


def switched_off() -> list[str]:
    """A sentence for each of ``lost_features``."""
    return [reason_without(feature) for feature in lost_features()]


def unseen() -> str:
    """A sentence where the tests have not run on this minor version of torch; empty else."""
    import torch

    minors = {minor(each) for each in SEEN_ON}
    if minor(torch.__version__) in minors:
        return ""
    return (
        f"dynamo_ext was not tested with torch {torch.__version__}, but with {', '.join(SEEN_ON)}."
    )


def minor(version: str) -> str:
    """The first two parts of a version: ``2.13`` of ``2.13.0+cpu``."""
    return ".".join(version.partition("+")[0].split(".")[:2])


def reason_without_backend(module: str) -> str:
    """Why the backend that a module defines cannot run; empty where it can."""
    if not module.startswith("dynamo_ext.") or module == f"{_ENGINES}eager.backend":
        return ""
    engine = module.removeprefix(_ENGINES).partition(".")[0]
    # Two engines convert graphs to ONNX.
    engines = [engine, "onnx"] if engine.startswith("onnx") else [engine]
    return next(filter(None, map(reason_without, (_BACKENDS, *engines))), "")


@functools.cache
def missing(feature: str) -> tuple[str, ...]:
    """The names that a feature uses and this torch lacks."""
    import torch

    # Reading the sources takes longer than knowing.
    known = SEEN_ON.get(torch.__version__.partition("+")[0])
    if known is not None and feature not in known:
        return ()
    return tuple(name for name in names(feature) if not _exists(name))


def names(feature: str) -> list[str]:
    """The private names that a feature uses, in order."""
    trees = (ast.parse(path.read_text(encoding="utf-8")) for path in _files(feature))
    return sorted(set().union(*map(private_names, trees)))


def feature_of(path: Path) -> str:
    """The feature that a file of capture's belongs to."""
    own = path.relative_to(_HOME).as_posix()
    return next((each for each, parts in FEATURES.items() if own in parts), CORE)


def _files(feature: str) -> Iterator[Path]:
    own = FEATURES.get(feature, (f"backends/engines/{feature}/torch_private.py",))
    others = {_HOME / part for each, parts in FEATURES.items() if each != feature for part in parts}
    for path in (_HOME / part for part in own):
        yield from (each for each in path.rglob("*.py") if each not in others)
        if path.is_file():
            yield path


def _exists(name: str) -> bool:
    """Whether a dotted name leads to something; its last part may be one of several names."""
    owner, _, last = name.rpartition(".")
    for each in last.split(OR):
        with contextlib.suppress(ImportError, AttributeError):
            pkgutil.resolve_name(f"{owner}.{each}")
            return True
    return False


def patches(tree: ast.AST) -> list[ast.Call]:
    """The decorators of a module that put a function in the place of one of torch's."""
    return [
        decorator
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        for decorator in node.decorator_list
        if isinstance(decorator, ast.Call)
        and ast.unparse(decorator.func) in {"patches", "patches_instruction"}
    ]


def private_names(tree: ast.AST) -> set[str]:
    """The names of torch's with a part that begins with an underscore.

    Imports, their attributes as written, and what patches replace; not the beginning of another
    name.
    """
    known = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for each in node.names:
                name = each.name if each.asname else each.name.partition(".")[0]
                known[each.asname or name] = name
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            known |= {each.asname or each.name: f"{node.module}.{each.name}" for each in node.names}
    found = set(known.values())
    used = [ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)]
    for patch in patches(tree):
        owner, *names = patch.args
        used.append(f"{ast.unparse(owner)}." + OR.join(map(ast.literal_eval, names)))
    for root, *attributes in (name.split(".") for name in used):
        if root in known and all(part.replace(OR, "").isidentifier() for part in attributes):
            found.add(".".join((known[root], *attributes)))
    found = {name for name in found if name.startswith("torch.") and _is_private(name)}
    return {name for name in found if not any(each.startswith(f"{name}.") for each in found)}


def _is_private(name: str) -> bool:
    return any(part.startswith("_") and not part.endswith("__") for part in name.split("."))
