"""Lines of code, and the functions that they are in."""

import pytest

from dynamo_ext.capture.code.source_lines import original_function


@pytest.mark.parametrize(
    ("name", "own"),
    [
        ("step", "step"),
        ("torch_dynamo_resume_in_step_at_3", "step"),
        ("torch_dynamo_resume_in_torch_dynamo_resume_in_step_at_3_at_5", "step"),
        ("Model.torch_dynamo_resume_in__size_at_398", "Model._size"),
        ("outer.<locals>.torch_dynamo_resume_in_inner_at_2", "outer.<locals>.inner"),
    ],
)
def test_a_resumed_function_is_called_what_it_is_in_the_code(name: str, own: str) -> None:
    assert original_function(name) == own
