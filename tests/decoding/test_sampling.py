"""Tokens are sampled with their probabilities, and only from the allowed ones."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from regard.decoding import GREEDY, Sampling
from regard.errors import UserError

VOCAB = 307


def logits(rows: int = 3, vocab: int = VOCAB, scale: float = 3.0) -> torch.Tensor:
    return scale * torch.randn(rows, vocab, generator=torch.Generator().manual_seed(1))


def drawn(sampling: Sampling, row: torch.Tensor, count: int = 5_000) -> np.ndarray:
    """How often each word is drawn, over numbers that lie evenly in [0, 1)."""
    numbers = ((np.arange(count) + 0.5) / count).astype(np.float32)
    words = sampling.choose(row.expand(count, -1), numbers)
    return np.bincount(words.numpy(), minlength=row.shape[-1]) / count


def expected(row: torch.Tensor, temperature: float, top_k: int | None, top_p: float | None) -> np.ndarray:
    """The same by sorting in float64."""
    p = (row.double() / temperature).softmax(-1).numpy()
    order = np.argsort(-p)
    kept = order[: top_k or len(order)]
    p = np.where(np.isin(np.arange(len(p)), kept), p, 0)
    p /= p.sum()
    if top_p is not None:
        before = np.cumsum(p[order]) - p[order]
        p[order[before >= top_p]] = 0
    return p / p.sum()


@pytest.mark.parametrize("top_k", [None, 5, 100, VOCAB, 5000])
@pytest.mark.parametrize("top_p", [None, 0.3, 0.95, 0.9999, 1.0])
@pytest.mark.parametrize("temperature", [0.5, 1.0, 4.0])
def test_frequencies_match_probabilities(top_k, top_p, temperature):
    row = logits(1)[0]
    found = drawn(Sampling(temperature, top_k, top_p), row)
    wanted = expected(row, temperature, top_k, top_p)
    assert np.abs(found - wanted).max() < 6e-4
    assert set(np.flatnonzero(found)) <= set(np.flatnonzero(wanted))


@pytest.mark.parametrize("scale", [0.01, 8.0])
def test_top_p_with_few_and_with_all_tokens(scale):
    row = logits(1, scale=scale)[0]
    assert np.abs(drawn(Sampling(top_p=0.9), row) - expected(row, 1.0, None, 0.9)).max() < 6e-4


def test_candidates_equal_hugging_face():
    transformers = pytest.importorskip("transformers")
    row = logits(1)
    for k, p in ((40, 0.8), (7, 0.99), (None, 0.6)):
        theirs = row / 0.7
        if k:
            theirs = transformers.TopKLogitsWarper(k)(None, theirs)
        theirs = transformers.TopPLogitsWarper(p)(None, theirs).softmax(-1)[0].double().numpy()
        assert np.abs(drawn(Sampling(0.7, k, p), row[0]) - theirs).max() < 6e-4


def test_greedy_takes_the_most_probable_token():
    rows = logits()
    numbers = np.array([0.0, 0.5, 0.999], np.float32)
    for sampling in (GREEDY, Sampling(temperature=0.0, top_p=0.5), Sampling(temperature=2.0, top_k=1)):
        assert sampling.greedy
        assert torch.equal(sampling.choose(rows, numbers), rows.argmax(-1))
    assert torch.equal(Sampling(top_p=1e-6).choose(rows, numbers), rows.argmax(-1))


@pytest.mark.parametrize("sampling", [Sampling(), Sampling(top_k=3), Sampling(top_p=0.7), Sampling(0.01)])
def test_extreme_uniforms_give_tokens_with_positive_probability(sampling):
    row = torch.full((2, VOCAB), -torch.inf)
    row[:, [7, 11, 300]] = torch.tensor([1.0, 1.1, 0.9])
    for number in (0.0, float(np.nextafter(np.float32(1), np.float32(0)))):
        assert set(sampling.choose(row, np.full(2, number, np.float32)).tolist()) <= {7, 11, 300}


def test_rows_are_independent():
    rows, numbers = logits(5), np.linspace(0, 0.99, 5, dtype=np.float32)
    for sampling in (Sampling(top_p=0.9), Sampling(0.8, 50), Sampling(1.3)):
        together = sampling.choose(rows, numbers)
        alone = [int(sampling.choose(rows[i : i + 1], numbers[i : i + 1])) for i in range(5)]
        assert together.tolist() == alone


def test_uniforms_depend_on_seed_prompt_and_sample_only():
    one = Sampling(seed=3).draw_uniforms([5, 6], 0, 8)
    assert np.array_equal(one, Sampling(seed=3).draw_uniforms([5, 6], 0, 8))
    assert np.array_equal(one[:4], Sampling(seed=3).draw_uniforms([5, 6], 0, 4))
    others = [Sampling(seed=4).draw_uniforms([5, 6], 0, 8), Sampling(seed=3).draw_uniforms([6, 5], 0, 8)]
    others += [Sampling(seed=3).draw_uniforms([5, 6], 1, 8)]
    assert not any(np.array_equal(one, other) for other in others)
    assert one.min() >= 0
    assert one.max() < 1


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"temperature": -1.0}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"top_k": 0}, "top_k"),
        ({"top_p": 0.0}, "top_p"),
        ({"top_p": 1.2}, "top_p"),
        ({"seed": -1}, "seed"),
    ],
)
def test_invalid_sampling_options(given, said):
    with pytest.raises(UserError, match=said):
        Sampling(**given)
