"""Torch's checks of the compiler: made once for one compiler, torch and processor, same choice."""

from __future__ import annotations

import contextlib
import platform
import shutil
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch._inductor import compile_fx as inductors
from torch._inductor import cpu_vec_isa

from dynamo_ext.backends import disk_cache, journal
from dynamo_ext.backends.engines.inductor import torch_private
from dynamo_ext.backends.torch_private import vec_isa
from dynamo_ext.backends.torch_private.vec_isa import Checks, checked_once
from dynamo_ext.torch_private import version
from tests.backends.own_process import silent

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ISA = cpu_vec_isa.VecAVX2()


class Machine:
    """Makes checks in torch's place, and counts them."""

    def __init__(self) -> None:
        self.passes = True
        self.checked: list[str] = []
        self.first_times = 0

    def check(self, code: str) -> bool:
        self.checked.append(code)
        return self.passes

    @contextlib.contextmanager
    def first_time(self) -> Iterator[None]:
        before = len(self.checked)
        yield
        self.first_times += 1
        assert len(self.checked) == before + 1

    def ask(self, code: str = "code") -> bool:
        with checked_once(self.first_time):
            return ISA.check_build(code)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    made = Machine()
    monkeypatch.setenv(disk_cache.FOLDER, str(tmp_path))

    def check_build(isa: Any, code: str) -> bool:
        return made.check(code)

    monkeypatch.setattr(cpu_vec_isa.VecISA, "check_build", check_build)
    return made


def test_a_check_that_passed_is_made_once(machine: Machine) -> None:
    assert machine.ask()
    assert machine.ask()
    assert (machine.checked, machine.first_times) == (["code"], 1)
    assert machine.ask("other code")
    assert machine.checked == ["code", "other code"]
    assert len(Checks().rows()) == 2


def test_one_that_failed_is_made_again_and_is_no_first_time(machine: Machine) -> None:
    machine.passes = False
    assert not machine.ask()
    machine.passes = True
    assert machine.ask()
    assert machine.ask()
    assert (len(machine.checked), machine.first_times) == (2, 1)


def another_compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compiler = tmp_path / "g++"
    compiler.write_text("another")
    monkeypatch.setattr(shutil, "which", lambda _: str(compiler))


def another_torch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(torch, "__version__", "2.13.1")


def another_processor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(vec_isa, "processor", lambda _: "sse")


def other_libraries(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))


@pytest.mark.parametrize(
    "change", [another_compiler, another_torch, another_processor, other_libraries]
)
def test_it_is_made_again_after_a_change(
    change: Any, machine: Machine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert machine.ask()
    change(monkeypatch, tmp_path)
    assert machine.ask()
    assert machine.ask()
    assert (len(machine.checked), machine.first_times) == (2, 2)


def test_without_a_file_to_tell_a_compiler_by_nothing_is_kept(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: "/nonexistent/g++")
    assert machine.ask()
    assert machine.ask()
    assert len(machine.checked) == 2
    assert not Checks().rows()


def test_torch_is_as_it_was_after_the_last_block(machine: Machine) -> None:
    before = cpu_vec_isa.VecISA.check_build, cpu_vec_isa.valid_vec_isa_list

    def now() -> bool:
        return (cpu_vec_isa.VecISA.check_build, cpu_vec_isa.valid_vec_isa_list) == before

    first, second = checked_once(machine.first_time), checked_once(machine.first_time)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not now()
    second.__exit__(None, None, None)
    assert now()


def test_a_torch_whose_choice_has_no_cache(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def listed() -> list[object]:
        return list(supported_vec_isa_list)  # type: ignore[name-defined] # noqa: F821

    monkeypatch.setattr(cpu_vec_isa, "valid_vec_isa_list", listed)
    with checked_once(machine.first_time):
        assert cpu_vec_isa.valid_vec_isa_list() == cpu_vec_isa.supported_vec_isa_list[:1]


def test_a_torch_without_the_names_makes_its_own_checks(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(version, "missing", lambda feature: (feature,))
    assert machine.ask()
    assert machine.ask()
    assert (len(machine.checked), machine.first_times) == (2, 0)


SAME_CHOICE = """
import contextlib, itertools, os
from torch._inductor import config, cpu_vec_isa as isas
from dynamo_ext.backends.torch_private import vec_isa

names = ["avx2", "avx512", "avx512_vnni", "amx_tile"]
isas.torch.cpu._init_amx = lambda: True
caches = [
    isas.VecISA._VecISA__bool__impl, isas.VecAVX512.__bool__, isas.VecAVX512VNNI.__bool__,
    isas.VecAMX.__bool__, isas.valid_vec_isa_list, vec_isa._best,
]
def fresh():
    for each in caches:
        each.cache_clear()
def chosen(compiles):
    checked.clear()
    return str(isas.pick_vec_isa())
checked = []
for count in range(len(names) + 1):
    has = names[:count]
    isas.x86_isa_checker = lambda: has
    for compiles in itertools.product((True, False), repeat=4):
        passing = dict(zip(names, compiles))
        def check(isa, code):
            checked.append(str(isa))
            return passing[str(isa).split()[-1]]
        isas.VecISA.check_build = check
        vec_isa._known = lambda isa, check, first_time, code: check(isa, code)
        for capability, simdlen in ((None, None), ("avx2", None), (None, 256), ("default", None)):
            os.environ.pop("ATEN_CPU_CAPABILITY", None)
            if capability:
                os.environ["ATEN_CPU_CAPABILITY"] = capability
            with config.patch({"cpp.simdlen": simdlen}):
                fresh()
                try:
                    theirs = chosen(compiles)
                except IndexError:
                    theirs = IndexError
                needed = len(checked)
                fresh()
                with vec_isa.checked_once(contextlib.nullcontext):
                    ours = chosen(compiles) if theirs is not IndexError else theirs
                assert ours == theirs, (has, passing, capability, simdlen, ours, theirs)
                assert len(checked) <= needed
                if has == names and all(compiles) and capability is simdlen is None:
                    assert set(checked) == {ours}, checked
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="torch has one choice elsewhere")
def test_the_choice_is_torchs_own(tmp_path: Path) -> None:
    silent(SAME_CHOICE, **{disk_cache.FOLDER: str(tmp_path)})


def test_inductor_compiles_both_passes_that_way(monkeypatch: pytest.MonkeyPatch) -> None:
    theirs, found = cpu_vec_isa.valid_vec_isa_list, []

    def compile_fx(graph: Any, inputs: Any, inner: Any, **_: object) -> Any:
        look()
        return inner

    def look(*_: object) -> None:
        found.append(cpu_vec_isa.valid_vec_isa_list is theirs)

    monkeypatch.setattr(inductors, "compile_fx", compile_fx)
    monkeypatch.setattr(inductors, "compile_fx_inner", look)
    graph = torch.fx.symbolic_trace(torch.nn.Identity())
    backward: Any = torch_private.inductor_compile(graph, [], "default", eagers_random=True)
    assert found == [False]
    look()
    backward()
    assert found == [False, True, False]
    assert cpu_vec_isa.valid_vec_isa_list is theirs


def test_what_a_backend_says_goes_to_what_listens_to_its_graph() -> None:
    heard: list[str] = []
    with journal.doing("before"), journal.active(journal.Journal(), heard.append):
        with journal.doing("it compiles"):
            assert heard == ["it compiles"]
        with journal.active(journal.Journal()), journal.doing("a candidate of auto's"):
            pass
    assert heard == ["it compiles", ""]
