"""What the system takes to hand out memory: said where it is much, and gone with the remedy."""

import os
import subprocess
import sys

import pytest

from dynamo_ext.timing.page_faults import KEEP_IT, PageFaults

CONVOLUTIONS = """
import torch
from dynamo_ext.timing.page_faults import PageFaults
layers = torch.nn.Sequential(*[torch.nn.Conv2d(16, 16, 1) for _ in range(4)])
faults, x = PageFaults(), torch.randn(4, 16, 128, 128)
layers(x)
for _ in range(10):
    with torch.no_grad(), faults.of(1):
        layers(x)
print(faults.faults)
"""


def test_it_is_said_where_faults_are_many_and_long():
    for few in (PageFaults(), PageFaults(2, 4_000, 0.1, 1.0), PageFaults(2, 1_000, 0.5, 1.0)):
        assert not few.sentence
    assert "the system took 50% of eager's" in PageFaults(2, 4_000, 0.5, 1.0).sentence


@pytest.mark.skipif(sys.platform != "linux", reason="the variables are glibc's")
def test_with_the_remedy_memory_is_kept():
    def faults(**more):
        command = [sys.executable, "-c", CONVOLUTIONS]
        ran = subprocess.run(command, env=os.environ | more, capture_output=True, check=True)
        return int(ran.stdout)

    variables = dict(word.split("=") for word in KEEP_IT.split() if "_=" in word)
    assert faults(**variables) <= faults() / 2
