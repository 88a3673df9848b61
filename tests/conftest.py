"""Tests are tiny: one thread each, so that processes side by side do not wait for one another."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)
