"""A machine has a name, and is told from others."""

from __future__ import annotations

import pytest

from benchmarks import machine


@pytest.mark.parametrize(
    ("processor", "vectors", "name"),
    [
        ("AMD EPYC", "AVX2", "amd-epyc-avx2-2-cores"),
        ("AMD EPYC", "AVX512", "amd-epyc-avx512-2-cores"),
        ("Intel(R) Xeon(R) Processor", "AVX512", "intel-xeon-avx512-2-cores"),
        ("Intel(R) Core(TM) i7-1065G7 CPU @ 1.30GHz", "AVX2", "intel-core-i7-1065g7-avx2-2-cores"),
        ("aarch64", "DEFAULT", "aarch64-default-2-cores"),
    ],
)
def test_a_machine_has_a_name_for_files(monkeypatch, processor, vectors, name):
    monkeypatch.setattr(machine, "_processor", lambda: processor)
    monkeypatch.setattr(machine, "_vectors", lambda: vectors)
    monkeypatch.setattr(machine.os, "cpu_count", lambda: 2)
    assert machine.name() == name
