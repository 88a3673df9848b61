"""Generate text with a causal model, for prompts in a batch. The batch does not change a result.

    generate(model, [[2, 17, 8]], max_new_tokens=50)[0][0].ids

A text ends with a stop token or after `max_new_tokens`; texts that have ended leave the batch. Tokens are chosen in
sampling.py, context_window.py defines what the model sees of a long text, and the decoders are in causal_decoders.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.tokenizer import EOS
from regard.decoding.causal_decoders import (
    CachedDecoder,
    CausalDecoder,
    OptimizedDecoder,
    build_causal_decoder,
    has_hooks,
)
from regard.decoding.context_window import max_positions, window_start
from regard.decoding.quantized_linear import FULL_PRECISION
from regard.decoding.sampling import Sampling
from regard.errors import UserError

OnToken = Callable[[int, int, int], object]
"""Called with each token when it is chosen: index of the prompt, index of the sample, token id."""


@dataclass
class GeneratedText:
    """A continuation of a prompt.

    Args:
        prompt: Token ids of the prompt.
        ids: Token ids of the continuation, without the stop token.
        stopped: Whether a stop token ended it.
        window_moved: Whether the text became longer than the model's input, so that its beginning was dropped.
    """

    prompt: list[int]
    ids: list[int] = field(default_factory=list)
    stopped: bool = False
    window_moved: bool = False


class TextGenerator:
    """A model with converted weights, for many prompts. It can be used from several threads.

    Args:
        cache: False reads the whole text again for every token.
        precision: float32, float16 or int8, for the weights.
    """

    def __init__(self, model: nn.Module, *, cache: bool = True, precision: str = FULL_PRECISION):
        self.model, self.cache = model, cache
        with torch.inference_mode():
            self._decoder = build_causal_decoder(model, cache=cache, precision=precision)

    def generate(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        max_new_tokens: int = 128,
        sampling: Sampling | None = None,
        num_samples: int = 1,
        stop_ids: Iterable[int] = (EOS,),
        suppress: Iterable[int] = (),
        window: int | None = None,
        on_token: OnToken | None = None,
    ) -> list[list[GeneratedText]]:
        """Generate continuations.

        Args:
            prompts: Token ids of each prompt; none may be empty.
            max_new_tokens: Maximum number of tokens of a continuation.
            sampling: How tokens are chosen. The default is `Sampling()`.
            num_samples: Continuations of each prompt.
            stop_ids: Tokens that end a text.
            suppress: Token ids that are never chosen.
            window: How many tokens the model sees at most, if fewer than its positions allow.
            on_token: Called with each token when it is chosen.

        Returns:
            For each prompt its `num_samples` continuations.
        """
        _check(prompts, max_new_tokens, num_samples, window)
        decoder = copy(self._decoder)  # shares the weights; the state belongs to this call
        if isinstance(decoder, OptimizedDecoder) and has_hooks(self.model):
            decoder = CachedDecoder(decoder.model)
        max_length = min((n for n in (window, max_positions(self.model)) if n is not None), default=None)
        with evaluation_mode(self.model), torch.inference_mode():
            batch = _GenerationBatch(
                decoder,
                prompts,
                max_new_tokens,
                sampling or Sampling(),
                num_samples,
                set(stop_ids),
                sorted(set(suppress)),
                max_length,
            )
            return batch.run(on_token or (lambda *_: None))


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Put a model into evaluation mode and switch autocast off, which converted weights do not support."""
    was_training = model.training
    any_training = any(module.training for module in model.modules())
    if any_training:  # setting all modules takes as long as a few tokens of a small model
        model.eval()
    try:
        with torch.autocast("cpu", enabled=False):
            yield
    finally:
        if any_training:
            model.train(was_training)


def generate(
    model: nn.Module,
    prompts: Sequence[Sequence[int]],
    *,
    cache: bool = True,
    precision: str = FULL_PRECISION,
    **options: Any,
) -> list[list[GeneratedText]]:
    """`TextGenerator(model).generate(prompts, ...)`"""
    return TextGenerator(model, cache=cache, precision=precision).generate(prompts, **options)


class _GenerationBatch:
    """The texts that are being generated.

    `rows` are the indices of the texts in the decoder's batch, `lengths` how many tokens it has read of each.
    """

    def __init__(
        self,
        decoder: CausalDecoder,
        prompts: Sequence[Sequence[int]],
        max_new_tokens: int,
        sampling: Sampling,
        num_samples: int,
        stop_ids: set[int],
        suppress: list[int],
        max_length: int | None,
    ):
        self.decoder, self.max_new_tokens, self.sampling, self.num_samples = (
            decoder,
            max_new_tokens,
            sampling,
            num_samples,
        )
        self.stop_ids, self.suppress, self.max_length = stop_ids, suppress, max_length
        self.prompts = [list(prompt) for prompt in prompts]
        self.texts = [GeneratedText(prompt) for prompt in self.prompts for _ in range(num_samples)]
        self.rows = list(range(len(self.texts)))
        self.lengths: list[int] = []
        self.uniforms: np.ndarray | None = None
        if not sampling.greedy:
            pairs = [(prompt, sample) for prompt in self.prompts for sample in range(num_samples)]
            self.uniforms = np.stack([sampling.draw_uniforms(*pair, max_new_tokens) for pair in pairs])

    def run(self, on_token: OnToken) -> list[list[GeneratedText]]:
        logits = self._prefill()
        for i in range(self.max_new_tokens):
            ids = self._choose(logits, i)
            active = self._append(ids.tolist(), on_token)
            if not any(active) or i + 1 == self.max_new_tokens:
                break
            logits = self._step(ids, active, self.max_new_tokens - i - 1)
        n = self.num_samples
        return [self.texts[i : i + n] for i in range(0, len(self.texts), n)]

    def _prefill(self) -> Tensor:
        """Read each prompt once for all of its samples."""
        logits = self._read(self.texts[:: self.num_samples], self.max_new_tokens)
        if self.num_samples == 1:
            return logits
        for i, text in enumerate(self.texts):
            text.window_moved = self.texts[i - i % self.num_samples].window_moved
        rows = torch.arange(len(self.prompts)).repeat_interleave(self.num_samples)
        self.lengths = [self.lengths[i] for i in rows.tolist()]
        self.decoder.select(rows)
        return logits[rows]

    def _choose(self, logits: Tensor, i: int) -> Tensor:
        if self.suppress:
            logits[:, self.suppress] = -torch.inf
        return self.sampling.choose(logits, None if self.uniforms is None else self.uniforms[self.rows, i])

    def _append(self, ids: list[int], on_token: OnToken) -> list[bool]:
        """Append a token to each text. Returns which texts have not ended."""
        active = []
        for row, id in zip(self.rows, ids, strict=True):
            text = self.texts[row]
            if not text.stopped:
                text.stopped = id in self.stop_ids
                if not text.stopped:
                    text.ids.append(id)
                    on_token(row // self.num_samples, row % self.num_samples, id)
            active.append(not text.stopped)
        return active

    def _step(self, ids: Tensor, active: list[bool], remaining: int) -> Tensor:
        # Rows that have ended cost time, and so does removing them: it is done when they are a quarter of the batch.
        if not all(active) and (self._is_full() or sum(active) <= 0.75 * len(active)):
            indices = [i for i, is_active in enumerate(active) if is_active]
            self.rows, self.lengths = [self.rows[i] for i in indices], [self.lengths[i] for i in indices]
            rows = torch.tensor(indices)
            self.decoder.select(rows)
            ids = ids[rows]
        if self._is_full():
            return self._read([self.texts[row] for row in self.rows], remaining)
        self.lengths = [n + 1 for n in self.lengths]
        return self.decoder.step(ids)

    def _is_full(self) -> bool:
        return self.max_length is not None and max(self.lengths) >= self.max_length

    def _read(self, texts: list[GeneratedText], remaining: int) -> Tensor:
        """Read the visible part of these texts. At most `remaining` tokens follow before they are read again."""
        contexts = []
        for text in texts:
            ids = [*text.prompt, *text.ids]
            start = window_start(len(ids), self.max_length)
            text.window_moved |= start > 0
            contexts.append(ids[start:])
        self.lengths = [len(context) for context in contexts]
        capacity = remaining if self.max_length is None else min(remaining, self.max_length - min(self.lengths))
        return self.decoder.prefill(contexts, capacity)


def _check(prompts: Sequence[Sequence[int]], max_new_tokens: int, num_samples: int, window: int | None) -> None:
    if not prompts:
        raise UserError("no prompt was given")
    if any(not len(prompt) for prompt in prompts):
        raise UserError("a prompt is empty; it needs at least one token, such as [BOS]")
    for name, value in (("max_new_tokens", max_new_tokens), ("num_samples", num_samples), ("window", window)):
        if value is not None and value < 1:
            raise UserError(f"{name} must be at least 1, got {value}")
