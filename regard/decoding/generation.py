"""Let a causal model write on: texts in a batch, each as if it were alone.

    generate(model, [[2, 17, 8]], tokens=50)[0][0].ids

A text ends with a stop word or after so many tokens; ended texts leave the batch. Which words are drawn is said in
sampling.py, what is seen of a long text in window.py, how the model is walked through in walkers.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.data.tokenizer import EOS
from regard.decoding.causal_decoders import Prepared, Remembered, Walker, walker, watched
from regard.decoding.context_window import places, start
from regard.decoding.quantized_linear import WHOLE
from regard.decoding.sampling import Sampling
from regard.errors import UserError

Heard = Callable[[int, int, int], object]
"""Is told each word when it is chosen: number of the prompt, number of the sample, word."""


@dataclass
class Written:
    """What was written after a prompt; `stopped` by a stop word, which is not part of it; `slid` where the text grew
    beyond the places that the model has."""

    prompt: list[int]
    ids: list[int] = field(default_factory=list)
    stopped: bool = False
    slid: bool = False


class Writer:
    """A model whose weights are prepared once, for many texts. `cache=False` reads the whole text again for every
    word; `precision` float16 takes weights of half the bytes, rounded."""

    def __init__(self, model: nn.Module, *, cache: bool = True, precision: str = WHOLE):
        self.model, self.cache = model, cache
        with torch.inference_mode():
            self._way = walker(model, cache=cache, precision=precision)

    def write(
        self,
        prompts: Sequence[Sequence[int]],
        *,
        tokens: int = 128,
        sampling: Sampling | None = None,
        samples: int = 1,
        stop: Iterable[int] = (EOS,),
        never: Iterable[int] = (),
        window: int | None = None,
        heard: Heard | None = None,
    ) -> list[list[Written]]:
        """So many samples for each prompt. `never` are words that are not to be written; `window` lets the model see
        less than it has places for."""
        _check(prompts, tokens, samples, window)
        way = self._way
        if isinstance(way, Prepared) and watched(self.model):
            way = Remembered(way.model)
        limit = min((n for n in (window, places(self.model)) if n is not None), default=None)
        with still(self.model), torch.inference_mode():
            job = _Job(way, prompts, tokens, sampling or Sampling(), samples, set(stop), sorted(set(never)), limit)
            return job.run(heard or (lambda *_: None))


@contextmanager
def still(model: nn.Module) -> Iterator[None]:
    """A model in evaluation mode for a while, and as it is: prepared weights know nothing of autocast."""
    was = model.training
    learns = any(module.training for module in model.modules())
    if learns:  # to set all modules takes as long as a few words of a small model
        model.eval()
    try:
        with torch.autocast("cpu", enabled=False):
            yield
    finally:
        if learns:
            model.train(was)


def generate(
    model: nn.Module,
    prompts: Sequence[Sequence[int]],
    *,
    cache: bool = True,
    precision: str = WHOLE,
    **how: Any,
) -> list[list[Written]]:
    """`Writer(model).write(prompts, ...)`"""
    return Writer(model, cache=cache, precision=precision).write(prompts, **how)


class _Job:
    """The texts that are being written. `rows` are the numbers of those that are in the walker's batch, `lengths`
    what it has read of each."""

    def __init__(
        self,
        way: Walker,
        prompts: Sequence[Sequence[int]],
        tokens: int,
        sampling: Sampling,
        samples: int,
        stop: set[int],
        never: list[int],
        limit: int | None,
    ):
        self.way, self.tokens, self.sampling, self.samples = way, tokens, sampling, samples
        self.stop, self.never, self.limit = stop, never, limit
        self.prompts = [list(prompt) for prompt in prompts]
        self.texts = [Written(prompt) for prompt in self.prompts for _ in range(samples)]
        self.rows = list(range(len(self.texts)))
        self.lengths: list[int] = []
        self.numbers: np.ndarray | None = None
        if not sampling.greedy:
            drawn = [sampling.numbers(p, sample, tokens) for p in self.prompts for sample in range(samples)]
            self.numbers = np.stack(drawn)

    def run(self, heard: Heard) -> list[list[Written]]:
        logits = self._first()
        for i in range(self.tokens):
            ids = self._choose(logits, i)
            alive = self._note(ids.tolist(), heard)
            if not any(alive) or i + 1 == self.tokens:
                break
            logits = self._go_on(ids, alive, self.tokens - i - 1)
        return [self.texts[i : i + self.samples] for i in range(0, len(self.texts), self.samples)]

    def _first(self) -> Tensor:
        """Each prompt is read once, for all of its samples."""
        logits = self._read(self.texts[:: self.samples], self.tokens)
        if self.samples == 1:
            return logits
        for i, text in enumerate(self.texts):
            text.slid = self.texts[i - i % self.samples].slid
        each = torch.arange(len(self.prompts)).repeat_interleave(self.samples)
        self.lengths = [self.lengths[i] for i in each.tolist()]
        self.way.select(each)
        return logits[each]

    def _choose(self, logits: Tensor, i: int) -> Tensor:
        if self.never:
            logits[:, self.never] = -torch.inf
        return self.sampling.choose(logits, None if self.numbers is None else self.numbers[self.rows, i])

    def _note(self, words: list[int], heard: Heard) -> list[bool]:
        """Write the words down; which rows go on."""
        alive = []
        for row, word in zip(self.rows, words, strict=True):
            text = self.texts[row]
            if not text.stopped:
                text.stopped = word in self.stop
                if not text.stopped:
                    text.ids.append(word)
                    heard(row // self.samples, row % self.samples, word)
            alive.append(not text.stopped)
        return alive

    def _go_on(self, ids: Tensor, alive: list[bool], left: int) -> Tensor:
        full = self.limit is not None and max(self.lengths) >= self.limit
        # Rows that have ended cost time, and so does leaving them behind: this is done when they are a quarter.
        if not all(alive) and (full or sum(alive) <= 0.75 * len(alive)):
            kept = [i for i, lives in enumerate(alive) if lives]
            self.rows, self.lengths = [self.rows[i] for i in kept], [self.lengths[i] for i in kept]
            rows = torch.tensor(kept)
            self.way.select(rows)
            ids = ids[rows]
            full = self.limit is not None and max(self.lengths) >= self.limit
        if full:
            return self._read([self.texts[row] for row in self.rows], left)
        self.lengths = [n + 1 for n in self.lengths]
        return self.way.step(ids)

    def _read(self, texts: list[Written], left: int) -> Tensor:
        """Read what is seen of these texts; `left` words may follow, or fewer before they must be read anew."""
        contexts = []
        for text in texts:
            whole = [*text.prompt, *text.ids]
            begin = start(len(whole), self.limit)
            text.slid |= begin > 0
            contexts.append(whole[begin:])
        self.lengths = [len(context) for context in contexts]
        room = left if self.limit is None else min(left, self.limit - min(self.lengths))
        return self.way.read(contexts, room)


def _check(prompts: Sequence[Sequence[int]], tokens: int, samples: int, window: int | None) -> None:
    if not prompts:
        raise UserError("there is no prompt to go on from")
    if any(not len(prompt) for prompt in prompts):
        raise UserError("a prompt is empty; give it at least one token, such as [BOS]")
    for name, value in (("tokens", tokens), ("samples", samples), ("the window", window)):
        if value is not None and value < 1:
            raise UserError(f"{name} must be 1 or more; given {value}")
