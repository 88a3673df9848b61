"""The example of a custom mechanism in the docs is one short file and fulfills the contract."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from regard.attention.mechanisms import MECHANISMS
from regard.config.plugins import import_files
from regard.layers import MultiHeadAttention
from regard.testing import CHECKS, check_mechanism

FILE = Path(__file__).parents[2] / "docs" / "examples" / "cosine_attention.py"


@pytest.fixture
def cosine() -> Iterator[str]:
    """The mechanism, registered in the same way as by `--import`."""
    import_files([FILE])
    yield "cosine"
    MECHANISMS.unregister("cosine")


def cosine_formula(mechanism, query: Tensor, keys: Tensor, qk_positions) -> Tensor:
    logits = mechanism.temperature * cosine_similarity(query[:, :, :, None], keys[:, :, None], dim=-1)
    bias = mechanism.positions.bias(qk_positions.q_pos, qk_positions.k_pos)
    return logits if bias is None else logits + bias


@pytest.mark.parametrize("check", CHECKS)
def test_the_example_fulfills_the_contract(cosine: str, check: str):
    check_mechanism(cosine, checks=[check], formula=cosine_formula)


def test_the_example_is_available_by_name_with_options(cosine: str):
    layer = MultiHeadAttention(12, 3, "cosine:temperature=4,key_width=5", positions="alibi")
    assert layer.mechanism.temperature.flatten().tolist() == [4.0] * 3
    assert layer.mechanism.key_width == 5
    assert layer(torch.randn(2, 7, 12)).shape == (2, 7, 12)


def test_the_example_is_short():
    assert len(FILE.read_text().splitlines()) <= 42
