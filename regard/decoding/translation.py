"""Let a model of two sides translate: sources sorted by length, in batches, each as if it were alone.

    Interpreter(model).write([[17, 8, 3]])[0][0].ids

Which words are chosen is said by the search (beam.py) or by a sampling (sampling.py); how the model is walked through,
in speakers.py. Sources end as they did in training; translations come without the end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from copy import copy
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.data import batches
from regard.data.tokenizer import BOS, EOS
from regard.decoding.beam_search import Beam, Said, search
from regard.decoding.causal_decoders import watched
from regard.decoding.context_window import places
from regard.decoding.generation import still
from regard.decoding.quantized_linear import WHOLE
from regard.decoding.sampling import Sampling
from regard.decoding.seq2seq_decoders import Prepared, Speaker, speaker
from regard.decoding.threads import spread
from regard.errors import UserError

ROOM = 1024
"""Places of the sources in a batch, padding included."""

LEAST = 16
"""Rows (sources times beams) that are worth a thread of their own."""


class Interpreter:
    """A model whose weights are prepared once, for many sources. `begin` and `end` are the words that stand before and
    after a target; `never` are words that are not to be said."""

    def __init__(
        self,
        model: nn.Module,
        *,
        begin: int = BOS,
        end: int = EOS,
        never: Iterable[int] = (),
        precision: str = WHOLE,
    ):
        self.model, self.begin, self.end, self.never = model, begin, end, sorted(set(never) - {end})
        self.most = places(model)
        with torch.inference_mode():
            self._way = speaker(model, never=self.never, precision=precision)

    def write(
        self,
        sources: Sequence[Sequence[int]],
        *,
        how: Beam | Sampling | None = None,
        limit: int | Callable[[int], int] = 256,
        room: int = ROOM,
        told: Callable[[int], Any] | None = None,
    ) -> list[list[Said]]:
        """The best translations of each source, the best first. `limit` is the most words of a translation, or gives
        it for the length of a source; `told` is called with the number of sources of each batch when it is done."""
        if any(not len(source) for source in sources):
            raise UserError("a source is empty; it ends at least with the word that ends it")
        how, way = how or Beam(), self._way
        if isinstance(way, Prepared) and watched(self.model):
            way = speaker(self.model, never=self.never)
        found: list[list[Said]] = [[] for _ in sources]
        parts = batches.plan_batches([len(source) for source in sources], room, seed=0, epoch=0, shuffle=False)
        beams = how.beams if isinstance(how, Beam) else 1
        with still(self.model), torch.inference_mode():
            if isinstance(way, Prepared):
                made = spread(
                    lambda part: self._batch(copy(way), [list(sources[i]) for i in part], how, limit),
                    parts := shared(parts, torch.get_num_threads(), beams),
                )
            else:
                made = enumerate(self._batch(way, [list(sources[i]) for i in part], how, limit) for part in parts)
            for number, each in made:
                for i, said in zip(parts[number], each, strict=True):
                    found[i] = said
                if told is not None:
                    told(len(each))
        return found

    def _batch(
        self, way: Speaker, rows: list[list[int]], how: Beam | Sampling, limit: int | Callable[[int], int]
    ) -> list[list[Said]]:
        ids, mask = batches.pad_rows(rows)
        limits = np.array([limit if isinstance(limit, int) else limit(len(row)) for row in rows])
        if (limits < 1).any():
            raise UserError(f"a translation has at least 1 word; the limit given is {limits.min()}")
        if self.most is not None:  # learned positions have a last place
            limits = np.minimum(limits, self.most - 1)
        source, real = torch.from_numpy(ids), None if mask.all() else torch.from_numpy(mask)
        if isinstance(how, Sampling):
            return draw(way, rows, source, real, how, begin=self.begin, end=self.end, limits=limits)
        return search(way, source, real, how, begin=self.begin, end=self.end, limits=limits)


def shared(parts: list[np.ndarray], threads: int, beams: int) -> list[np.ndarray]:
    """Batches for so many threads: where there are fewer than threads, some are dealt out in turns, so that each has
    short and long ones, as long as that leaves enough rows to read all weights for."""
    if len(parts) >= threads:
        return parts
    found: list[np.ndarray] = []
    for part in parts:
        count = min(threads // len(parts), max(1, len(part) * beams // LEAST))
        found += [part[i::count] for i in range(count)]
    return found


def draw(
    way: Speaker,
    rows: list[list[int]],
    source: Tensor,
    mask: Tensor | None,
    how: Sampling,
    *,
    begin: int,
    end: int,
    limits: np.ndarray,
) -> list[list[Said]]:
    """One translation of each source, drawn word by word; the same seed draws the same, whatever the batch."""
    most, b = int(limits.max()), len(source)
    numbers = None if how.greedy else np.stack([how.numbers(row, 0, most + 1) for row in rows])
    words, sums = np.zeros((most + 1, b), np.int64), np.zeros(b)
    lengths, alive = np.full(b, -1), np.arange(b)
    logits = way.read(source, mask, begin, most, 1)[:, 0]
    for step in range(most + 1):
        chosen = how.choose(logits, None if numbers is None else numbers[alive, step])
        words[step, alive] = chosen.numpy()
        cut = (chosen.numpy() != end) & (limits[alive] == step)  # this word is not said any more
        sums[alive] += np.where(cut, 0.0, (logits.gather(1, chosen[:, None])[:, 0] - logits.logsumexp(-1)).numpy())
        over = (chosen.numpy() == end) | cut
        lengths[alive[over]] = step
        if over.all():
            break
        if over.any():
            kept = torch.from_numpy(np.flatnonzero(~over))
            way.select(kept)
            alive, chosen = alive[~over], chosen[kept]
        logits = way.step(chosen[:, None], torch.zeros(len(chosen), 1, dtype=torch.long))[:, 0]
    ended = words[lengths, np.arange(b)] == end
    return [
        [Said(words[: lengths[i], i].tolist(), sums[i] / max(1, lengths[i] + ended[i]), float(sums[i]), bool(ended[i]))]
        for i in range(b)
    ]
