"""What is changed of torch's is put back, and what is asked of it is true."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import pytest
import torch

import dynamo_ext
from dynamo_ext.capture.torch_private import code_cache, compile_settings, frame_eval, traced_frames


def test_quiet_logs_hold_for_the_block_only(caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("torch._dynamo.convert_frame")
    shown = warnings.showwarning
    filters = list(log.filters)
    with compile_settings.quiet_logs():
        log.warning("inside")
        logging.getLogger("mine").warning("mine")
    assert warnings.showwarning is shown
    assert log.filters == filters
    assert "inside" not in caplog.text
    assert "mine" in caplog.text


def test_a_users_warning_passes_through() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with compile_settings.quiet_logs():
            warnings.warn("the user's own", stacklevel=1)
    assert [str(one.message) for one in caught] == ["the user's own"]


def test_settings_of_capture_are_put_back() -> None:
    config = torch._dynamo.config
    before = config.suppress_errors, config.trace_numpy
    with config.patch(suppress_errors=True):
        with compile_settings.capture_settings():
            assert not config.suppress_errors
        assert config.suppress_errors
    assert (config.suppress_errors, config.trace_numpy) == before


def test_a_log_of_side_effects_is_written_for_a_reader_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = torch._dynamo.config
    with compile_settings.capture_settings():
        assert config.side_effect_replay_policy == "silent"
    with config.patch(side_effect_replay_policy="warn"), compile_settings.capture_settings():
        assert config.side_effect_replay_policy == "warn"
    monkeypatch.setattr(compile_settings._SIDE_EFFECTS, "level", logging.DEBUG)
    compile_settings._SIDE_EFFECTS.manager._clear_cache()  # type: ignore[attr-defined]
    with compile_settings.capture_settings():
        assert config.side_effect_replay_policy == "info"


def test_the_log_of_side_effects_is_torchs() -> None:
    from torch._dynamo import side_effects

    assert side_effects.side_effects_log is compile_settings._SIDE_EFFECTS


def test_a_call_puts_the_former_callback_back() -> None:
    prior = frame_eval.install(None)
    try:
        with pytest.raises(ZeroDivisionError):
            frame_eval.call_under(None, lambda: 1 / 0)
        assert torch._C._dynamo.eval_frame.get_eval_frame_callback() is None
    finally:
        frame_eval.uninstall(prior)


def test_versions_are_counted_and_forgotten() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    torch.compile(f, backend="eager")(torch.ones(2))
    assert len(code_cache.guard_managers(f.__code__)) == 1
    code_cache.forget_code(f.__code__)
    assert code_cache.guard_managers(f.__code__) == []


def test_library_code_is_told_from_the_users() -> None:
    assert traced_frames.is_library_code(torch.compile.__code__)
    assert not traced_frames.is_library_code(test_library_code_is_told_from_the_users.__code__)


@pytest.mark.skipif(
    not hasattr(torch._dynamo.config, "caching_precompile"), reason="an older torch"
)
def test_torchs_cache_of_frames_does_not_keep_a_cell_out() -> None:
    names: dict[str, Any] = {"torch": torch}
    exec(compile("def cell(x):\n    return x.sin() * 2\n", "the cell", "exec"), names)
    with torch._dynamo.config.patch(caching_precompile=True):
        compiled = dynamo_ext.optimize("eager")(names["cell"])
        compiled(torch.ones(3))
        assert torch._dynamo.config.caching_precompile
    report = compiled.report()
    assert len(report.graphs) == 1
    assert not report.fallbacks


def test_guards_do_not_know_dictionaries_by_a_tag() -> None:
    name = "use_recursive_dict_tags_for_guards"
    config = torch._dynamo.config
    if not hasattr(config, name):
        pytest.skip("another torch")
    with config.patch({name: True}), compile_settings.capture_settings():
        assert not getattr(config, name)
