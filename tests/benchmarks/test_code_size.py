import tomllib

from benchmarks import code_size


def test_nothing_grows():
    most = tomllib.loads((code_size.ROOT / "size.toml").read_text())
    found = code_size.counts()
    assert found.keys() == most.keys()
    assert {name: found[name] for name in most if found[name] > most[name]} == {}
