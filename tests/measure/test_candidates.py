"""What a user lists becomes rows with compilers of their own."""

from __future__ import annotations

import pytest

from dynamo_ext.backends import registry
from dynamo_ext.backends.base import Backend
from dynamo_ext.errors import OptionError, UnknownBackendError
from dynamo_ext.measure.candidates import candidates_of
from dynamo_ext.measure.remote import serialization
from dynamo_ext.measure.settings import Settings
from dynamo_ext.measure.workload import FunctionWorkload


def mine(graph, inputs):
    return graph.forward


def test_names_come_in_a_string_or_a_list_or_a_mapping():
    assert [c.name for c in candidates_of("aot_eager, ts")] == ["aot_eager", "ts"]
    assert [c.name for c in candidates_of(["aot_eager", mine])] == ["aot_eager", "mine"]
    two = candidates_of({"a": "onnxrt", "b": "onnxrt"}, {"b.verify": False})
    assert [(c.name, c.backend) for c in two] == [("a", "onnxrt"), ("b", "onnxrt")]
    assert two[0].compiler.options["verify"]
    assert not two[1].compiler.options["verify"]
    assert two[1].options == (("verify", "False"),)


def test_an_option_without_a_name_is_for_all_that_have_it():
    one, two = candidates_of("onnxrt,aot_eager", {"min_partition": "5"})
    assert one.compiler.options["min_partition"] == 5
    assert two.options == ()


def test_options_in_brackets_make_rows_of_one_backend():
    plain, tuned = candidates_of("inductor, inductor[mode=max-autotune,random=torch]")
    assert tuned.name == "inductor[mode=max-autotune,random=torch]"
    assert (plain.backend, tuned.backend) == ("inductor", "inductor")
    assert plain.compiler.options["mode"] == "default"
    assert tuned.options == (("mode", "max-autotune"), ("random", "torch"))
    assert tuned.compiler.options["mode"] == "max-autotune"


def test_an_option_in_brackets_without_a_value_is_part_of_a_name():
    with pytest.raises(UnknownBackendError, match="Did you mean inductor"):
        candidates_of("inductor[mode]")


def test_a_compiler_is_made_anew_each_time():
    [found] = candidates_of("aot_eager")
    assert found.compiler is not registry.compiler("aot_eager")


def test_eager_as_a_candidate_is_not_the_baseline():
    [found] = candidates_of("eager")
    assert found.name == "eager under Dynamo"
    assert candidates_of("eager,onnxrt", settings=Settings(baseline="onnxrt"))[0].name == "eager"


def test_an_unavailable_backend_has_no_compiler():
    [found] = candidates_of("tensorrt")
    assert found.compiler is None
    assert found.availability.reason


@pytest.mark.parametrize("backends", ["", [], {}, " , "])
def test_nothing_is_refused(backends):
    with pytest.raises(OptionError):
        candidates_of(backends)


def test_what_is_unknown_is_refused():
    with pytest.raises(UnknownBackendError):
        candidates_of("nonesuch")
    with pytest.raises(OptionError, match="nonesuch"):
        candidates_of("aot_eager", {"nonesuch": 1})
    with pytest.raises(OptionError, match="onnxrt cannot be given precision bf16"):
        candidates_of("onnxrt", {"precision": "bf16"})
    with pytest.raises(OptionError, match="twice"):
        candidates_of("ts,ts")
    with pytest.raises(OptionError, match=r"baseline onnxrt .* Use eager or one of ts, aot_eager"):
        candidates_of("ts,aot_eager", settings=Settings(baseline="onnxrt"))


def test_a_precision_is_part_of_what_another_process_gets(monkeypatch):
    [here] = candidates_of(["eager:bf16"])
    facts = here.name, here.backend, here.precision, here.options
    assert facts == ("eager:bf16", "eager", "bf16", ())
    sent = serialization.pack(FunctionWorkload(mine, ()), [here], Settings())
    with serialization.unpacked(sent) as parts:
        (there,) = parts["candidates"]
    assert there.compiler.options["precision"] == "bf16"
    assert there.availability.available
    monkeypatch.setattr(Backend, "lacks_precision", lambda *_: "There is none here.")
    [lacking] = candidates_of(["eager:bf16"])
    assert lacking.compiler is None
    assert lacking.availability.reason == "There is none here."
