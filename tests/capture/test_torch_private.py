"""The private torch interfaces are there, and are put back."""

from __future__ import annotations

import logging
import warnings

import pytest
import torch

from dynamo_ext.capture import torch_private
from dynamo_ext.errors import UnsupportedTorchError


def test_this_torch_has_all_that_is_needed() -> None:
    torch_private.check()
    assert torch.__version__.split("+")[0] in torch_private.CHECKED_ON


def test_a_missing_name_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(torch._dynamo.convert_frame, "register_bytecode_hook")
    with pytest.raises(UnsupportedTorchError, match="register_bytecode_hook"):
        torch_private.check()


def test_quiet_logs_hold_for_the_block_only(caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("torch._dynamo.convert_frame")
    shown = warnings.showwarning
    filters = list(log.filters)
    with torch_private.quiet_logs():
        log.warning("inside")
        logging.getLogger("mine").warning("mine")
    assert warnings.showwarning is shown
    assert log.filters == filters
    assert "inside" not in caplog.text
    assert "mine" in caplog.text


def test_a_users_warning_passes_through() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with torch_private.quiet_logs():
            warnings.warn("the user's own", stacklevel=1)
    assert [str(one.message) for one in caught] == ["the user's own"]


def test_failures_become_eager_is_put_back() -> None:
    config = torch._dynamo.config
    before = config.suppress_errors, config.trace_numpy
    with torch_private.failures_become_eager(fullgraph=False):
        assert config.suppress_errors
    assert (config.suppress_errors, config.trace_numpy) == before


def test_a_call_puts_the_former_callback_back() -> None:
    prior = torch_private.install(None)
    try:
        with pytest.raises(ZeroDivisionError):
            torch_private.call_under(None, lambda: 1 / 0)
        assert torch._C._dynamo.eval_frame.get_eval_frame_callback() is None
    finally:
        torch_private.uninstall(prior)


def test_versions_are_counted_and_forgotten() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    torch.compile(f, backend="eager")(torch.ones(2))
    assert torch_private.cached_versions(f.__code__) == 1
    torch_private.forget_code(f.__code__)
    assert torch_private.cached_versions(f.__code__) == 0


def test_library_code_is_told_from_the_users() -> None:
    assert torch_private.is_library_code(torch.compile.__code__)
    assert not torch_private.is_library_code(test_library_code_is_told_from_the_users.__code__)


def test_what_is_a_module() -> None:
    assert torch_private.is_module(torch.nn.ReLU())
    assert not torch_private.is_module(torch.nn.ReLU)
    assert not torch_private.is_module(torch.relu)
