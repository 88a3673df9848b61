"""Translate with an encoder-decoder model: sources sorted by length, in batches. The batch does not change a result.

    BatchTranslator(model).translate([[17, 8, 3]])[0][0].ids

The tokens are chosen by beam search (beam_search.py) or by sampling (sampling.py); the decoders are in
seq2seq_decoders.py. Sources end as in training; translations are returned without [EOS].
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
from regard.decoding.beam_search import BeamSearch, Hypothesis, run_beam_search
from regard.decoding.causal_decoders import has_hooks
from regard.decoding.context_window import max_positions
from regard.decoding.generation import evaluation_mode
from regard.decoding.quantized_linear import FULL_PRECISION
from regard.decoding.sampling import Sampling
from regard.decoding.seq2seq_decoders import OptimizedSeq2SeqDecoder, Seq2SeqDecoder, build_seq2seq_decoder
from regard.decoding.threads import run_in_threads
from regard.errors import UserError

BATCH_TOKENS = 1024
"""Tokens of the sources in a batch, padding included."""

MIN_THREAD_ROWS = 16
"""Rows (sources times beams) that are worth a thread."""

MaxLength = int | Callable[[int], int]
"""Maximum number of tokens of a translation, or a function of the length of its source."""


class BatchTranslator:
    """A model with converted weights, for many sources. It can be used from several threads.

    Args:
        bos_id, eos_id: The tokens before and after a target.
        suppress: Token ids that are never chosen.
        precision: float32, float16 or int8, for the weights.
    """

    def __init__(
        self,
        model: nn.Module,
        *,
        bos_id: int = BOS,
        eos_id: int = EOS,
        suppress: Iterable[int] = (),
        precision: str = FULL_PRECISION,
    ):
        self.model, self.bos_id, self.eos_id, self.suppress = model, bos_id, eos_id, sorted(set(suppress) - {eos_id})
        self.max_positions = max_positions(model)
        with torch.inference_mode():
            self._decoder = build_seq2seq_decoder(model, suppress=self.suppress, precision=precision)

    def translate(
        self,
        sources: Sequence[Sequence[int]],
        *,
        strategy: BeamSearch | Sampling | None = None,
        max_length: MaxLength = 256,
        batch_tokens: int = BATCH_TOKENS,
        on_progress: Callable[[int], Any] | None = None,
    ) -> list[list[Hypothesis]]:
        """The best translations of each source, the best first.

        Args:
            sources: Token ids, with their end.
            strategy: How tokens are chosen. The default is `BeamSearch()`.
            max_length: Maximum number of tokens of a translation, or a function of the length of its source.
            batch_tokens: Tokens of the sources in a batch, padding included.
            on_progress: Called with the number of sources of each batch when it is done.
        """
        if any(not len(source) for source in sources):
            raise UserError("a source is empty; it must hold at least [EOS]")
        strategy, decoder = strategy or BeamSearch(), self._decoder
        if isinstance(decoder, OptimizedSeq2SeqDecoder) and has_hooks(self.model):
            decoder = build_seq2seq_decoder(self.model, suppress=self.suppress)
        results: list[list[Hypothesis]] = [[] for _ in sources]
        plan = batches.plan_batches([len(source) for source in sources], batch_tokens, seed=0, epoch=0, shuffle=False)
        beam_size = strategy.beam_size if isinstance(strategy, BeamSearch) else 1

        def translate_batch(indices: np.ndarray) -> list[list[Hypothesis]]:
            # Each batch decodes with a copy, which shares the weights but not the state.
            return self._translate_batch(copy(decoder), [list(sources[i]) for i in indices], strategy, max_length)

        with evaluation_mode(self.model), torch.inference_mode():
            if isinstance(decoder, OptimizedSeq2SeqDecoder):
                plan = split_batches(plan, torch.get_num_threads(), beam_size)
                finished = run_in_threads(translate_batch, plan)
            else:
                finished = enumerate(map(translate_batch, plan))
            for number, hypotheses in finished:
                for i, each in zip(plan[number], hypotheses, strict=True):
                    results[i] = each
                if on_progress is not None:
                    on_progress(len(hypotheses))
        return results

    def _translate_batch(
        self,
        decoder: Seq2SeqDecoder,
        rows: list[list[int]],
        strategy: BeamSearch | Sampling,
        max_length: MaxLength,
    ) -> list[list[Hypothesis]]:
        ids, mask = batches.pad_rows(rows)
        max_lengths = np.array([max_length if isinstance(max_length, int) else max_length(len(row)) for row in rows])
        if (max_lengths < 1).any():
            raise UserError(f"the maximum length of a translation must be at least 1, got {max_lengths.min()}")
        if self.max_positions is not None:  # learned positions
            max_lengths = np.minimum(max_lengths, self.max_positions - 1)
        source, key_mask = torch.from_numpy(ids), None if mask.all() else torch.from_numpy(mask)
        options: dict[str, Any] = {"bos_id": self.bos_id, "eos_id": self.eos_id, "max_lengths": max_lengths}
        if isinstance(strategy, Sampling):
            return sample_translations(decoder, rows, source, key_mask, strategy, **options)
        return run_beam_search(decoder, source, key_mask, strategy, **options)


def split_batches(plan: list[np.ndarray], threads: int, beam_size: int) -> list[np.ndarray]:
    """Split batches if there are fewer than threads, as long as enough rows are left for reading all weights.

    Sources are dealt out in turn, so that each part has short and long ones.
    """
    if len(plan) >= threads:
        return plan
    parts: list[np.ndarray] = []
    for batch in plan:
        count = min(threads // len(plan), max(1, len(batch) * beam_size // MIN_THREAD_ROWS))
        parts += [batch[i::count] for i in range(count)]
    return parts


def sample_translations(
    decoder: Seq2SeqDecoder,
    rows: list[list[int]],
    source: Tensor,
    mask: Tensor | None,
    sampling: Sampling,
    *,
    bos_id: int,
    eos_id: int,
    max_lengths: np.ndarray,
) -> list[list[Hypothesis]]:
    """Sample one translation of each source. The same seed gives the same result, whatever the batch."""
    max_length, b = int(max_lengths.max()), len(source)
    uniforms = None if sampling.greedy else np.stack([sampling.draw_uniforms(row, 0, max_length + 1) for row in rows])
    ids, log_probs = np.zeros((max_length + 1, b), np.int64), np.zeros(b)
    lengths, active = np.full(b, -1), np.arange(b)
    logits = decoder.start(source, mask, bos_id, max_length, 1)[:, 0]
    for step in range(max_length + 1):
        chosen = sampling.choose(logits, None if uniforms is None else uniforms[active, step])
        ids[step, active] = chosen.numpy()
        truncated = (chosen.numpy() != eos_id) & (max_lengths[active] == step)  # this token is dropped
        step_log_probs = (logits.gather(1, chosen[:, None])[:, 0] - logits.logsumexp(-1)).numpy()
        log_probs[active] += np.where(truncated, 0.0, step_log_probs)
        done = (chosen.numpy() == eos_id) | truncated
        lengths[active[done]] = step
        if done.all():
            break
        if done.any():
            remaining = torch.from_numpy(np.flatnonzero(~done))
            decoder.select(remaining)
            active, chosen = active[~done], chosen[remaining]
        logits = decoder.step(chosen[:, None], torch.zeros(len(chosen), 1, dtype=torch.long))[:, 0]
    ended = ids[lengths, np.arange(b)] == eos_id
    scores = log_probs / np.maximum(1, lengths + ended)
    return [
        [Hypothesis(ids[: lengths[i], i].tolist(), scores[i], float(log_probs[i]), bool(ended[i]))] for i in range(b)
    ]
