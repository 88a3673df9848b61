"""Generation from several threads: each call has its own decoder state, so the results are those of one thread."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from torch import nn

from regard.decoding import GREEDY, BatchTranslator, BeamSearch, Sampling, TextGenerator
from regard.models.gpt import GPT
from regard.models.rnn_translator import RNNTranslator
from regard.models.transformer import Transformer

THREADS, CALLS = 8, 48
PROMPTS = [[7 + i, *range(8, 8 + i)] for i in range(12)]
SOURCES = [[*prompt, 3] for prompt in PROMPTS]
GPTS = {
    "learned positions": {"positions": "learned:length=64"},
    "rotary": {"positions": "rotary"},
    "alibi": {"positions": "alibi"},
    "additive": {"mechanism": "additive"},
}
TRANSLATORS = {
    "transformer": lambda: Transformer(vocab_size=41, dim=16, hidden=24, layers=2, decoder_layers=2, heads=2),
    "additive": lambda: Transformer(vocab_size=41, dim=16, hidden=24, layers=1, heads=2, mechanism="additive"),
    "rnn": lambda: RNNTranslator(vocab_size=41, dim=10, hidden=14),
}


def randomize(model: nn.Module) -> nn.Module:
    """Larger weights, so that different prompts give different texts."""
    torch.manual_seed(0)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.25 * torch.randn_like(p))
    return model.eval()


def select(rows: list[list[int]], call: int) -> list[list[int]]:
    """Another batch size and other rows for each call."""
    return [rows[(call + i) % len(rows)] for i in range(1 + call % 5)]


def assert_same_in_threads(run: Callable[[int], Any]) -> None:
    expected = [run(call) for call in range(CALLS)]
    assert len({repr(result) for result in expected}) > CALLS // 4, "the calls must differ"
    with ThreadPoolExecutor(THREADS) as pool:
        results = list(pool.map(run, range(CALLS)))
    wrong = [call for call in range(CALLS) if results[call] != expected[call]]
    assert not wrong, f"{len(wrong)} of {CALLS} calls are wrong: {wrong}"


@pytest.mark.parametrize("name", GPTS)
def test_generation_in_threads(name: str):
    generator = TextGenerator(randomize(GPT(vocab_size=61, dim=42, layers=2, heads=3, **GPTS[name])))

    def run(call: int) -> list[list[list[int]]]:
        sampling = GREEDY if call % 2 else Sampling(temperature=0.9, top_k=20, seed=call)
        texts = generator.generate(
            select(PROMPTS, call), max_new_tokens=4 + call % 7, sampling=sampling, num_samples=1 + call % 3
        )
        return [[text.ids for text in samples] for samples in texts]

    assert_same_in_threads(run)


@pytest.mark.parametrize("name", TRANSLATORS)
def test_translation_in_threads(name: str):
    translator = BatchTranslator(randomize(TRANSLATORS[name]()))

    def run(call: int) -> list[list[int]]:
        strategy = BeamSearch(1 + call % 4) if call % 3 else Sampling(temperature=0.9, top_k=20, seed=call)
        results = translator.translate(select(SOURCES, call), strategy=strategy, max_length=4 + call % 7)
        return [hypotheses[0].ids for hypotheses in results]

    assert_same_in_threads(run)


def test_threads_without_kernels():
    """The variable is read when weights are converted, so a child process runs the tests above."""
    if "REGARD_TORCH_ONLY" in os.environ:
        pytest.skip("this is the child process")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__]
    child = subprocess.run(command, env={**os.environ, "REGARD_TORCH_ONLY": "1"}, capture_output=True, text=True)
    assert child.returncode == 0, child.stdout[-3000:]
