"""Compare language models by the loss per token on the same test text.

An item is a segment of the test text of one window or more, scored separately. Neighbouring segments come from the same
text, but confidence intervals treat them as independent. All designs must have the same tokenizer.
"""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from regard.data import chunks
from regard.data.corpus import Corpus
from regard.data.token_properties import TokenProperties
from regard.errors import UserError
from regard.tasks.comparison import (
    PARTS,
    ComparisonAdapter,
    ComparisonMetric,
    ItemScores,
    count_repeated,
    load_item_stats,
    ratio_of_sums,
)
from regard.tasks.language.fill_mask import MASK_TOKEN
from regard.tasks.language.objective import build_token_objective
from regard.tasks.language.objectives.token_objective import VALIDATION_EPOCH, TokenBatch, TokenObjective

logger = logging.getLogger(__name__)

MAX_SEGMENTS = 400
CONTEXT_TOKENS = 40  # shown on each side of a token
MIN_LINE_LENGTH = 30  # shorter lines are not counted as repeated: they occur twice in any text


def perplexity(sums: np.ndarray) -> np.ndarray:
    """exp of the mean loss per token."""
    return np.exp(np.minimum(ratio_of_sums(sums), 700.0))


@dataclass(frozen=True)
class _TestText:
    """The test text as a run reads it; segment i has the tokens edges[i] to edges[i + 1]."""

    corpus: Corpus
    objective: TokenObjective
    edges: list[int]

    def segment(self, index: int) -> Corpus:
        return self.corpus.slice(self.edges[index], self.edges[index + 1])


class LanguageComparison(ComparisonAdapter):
    """Comparison of language models."""

    metrics = (
        ComparisonMetric(
            "loss",
            "min",
            "number",
            "mean -log p of a token (of the masked tokens for the objective masked)",
            ratio_of_sums,
            maximum=math.inf,
        ),
        ComparisonMetric("perplexity", "min", "number", "exp of the loss", perplexity, maximum=math.inf),
    )
    quality_name = "nats per token"

    def split_data(
        self, settings: Any, test_files: Sequence[str] | None, test_fraction: float, seed: int, folder: Path
    ) -> dict[str, Any]:
        """The last lines are the test part, and those before are for validation: random lines would be easy to predict
        from their neighbours."""
        data = settings.data
        parts = {"train": _read_lines(data.train)}
        valid_files = None if data.valid is None else [data.valid]
        for part, files, fraction in (
            ("test", test_files, test_fraction),
            ("valid", valid_files, data.valid_fraction),
        ):
            if files is not None:
                parts[part] = _read_lines(files)
            else:
                parts["train"], parts[part] = _split_lines(parts["train"], fraction)
        for part, lines in parts.items():
            (folder / f"{part}.txt").write_text("".join(lines), encoding="utf-8")
        long_lines = {part: [line for line in lines if len(line) >= MIN_LINE_LENGTH] for part, lines in parts.items()}
        repeated = count_repeated(long_lines)
        return {
            "items": {part: len(parts[part]) for part in PARTS},
            "repeated": {key: repeated[key] for key in ("test in training", "validation in training")},
            "evidence": False,
        }

    def data_settings(self, folder: Path, facts: Mapping[str, Any]) -> dict[str, Any]:
        files = {"train": [str(folder / "train.txt")], "valid": str(folder / "valid.txt")}
        return {**files, "cache": str(folder / "tokens")}  # all runs share the tokens

    def score(self, run: Any, folder: Path) -> ItemScores:
        text = _read_test_text(run, folder)
        rows = []
        for start, end in pairwise(text.edges):
            loss = text.objective.evaluate(run.model, text.corpus.slice(start, end))["loss"]
            rows.append((loss * (end - start), end - start))
        stats = np.array(rows, np.float64)
        outputs = [{"loss": nats / count, "tokens": int(count)} for nats, count in rows]
        return ItemScores({"loss": stats, "perplexity": stats}, outputs)

    def latency_queries(self, run: Any, folder: Path, count: int) -> list[Callable[[], Any]]:
        """The logits of the last token of a window."""
        corpus = Corpus.from_texts((folder / "valid.txt").read_text(encoding="utf-8"), run.tokenizer)
        length = min(run.settings.data.block_size, corpus.num_tokens)
        starts = np.linspace(0, corpus.num_tokens - length, count).astype(int)

        def query(start: int) -> Any:
            ids = torch.from_numpy(corpus.read(np.array([start]), length))
            with torch.no_grad():
                return run.model(ids, logits_at=torch.tensor([length - 1]))

        return [lambda start=int(start): query(start) for start in starts]

    def item_quality(self, file: Path) -> np.ndarray:
        stats = load_item_stats(file, "loss")
        return -stats[:, 0] / stats[:, 1]

    def describe_items(self, folder: Path, indices: Sequence[int], runs: Sequence[Any]) -> list[dict[str, Any]]:
        """The token of each segment on which the runs differ most, with its context and their predictions."""
        texts = [_read_test_text(run, folder) for run in runs]
        return [_describe_segment(runs, texts, index) for index in indices]


def _read_lines(files: Sequence[str]) -> list[str]:
    sources, notes = chunks.find_text_files(files)
    for note in notes:
        logger.info(note)
    blocks = (block.data.decode("utf-8", "replace") for source in sources for block in chunks.read_blocks(source))
    return "".join(blocks).splitlines(keepends=True)


def _split_lines(lines: list[str], fraction: float) -> tuple[list[str], list[str]]:
    """Hold out the last lines, about `fraction` of the characters."""
    ends = np.cumsum([len(line) for line in lines])
    first = int(np.searchsorted(ends, (1 - fraction) * ends[-1])) if len(lines) else 0
    if not 0 < first < len(lines):
        raise UserError(f"a text of {len(lines)} lines cannot be split; use more text, or a file for each part")
    return lines[:first], lines[first:]


def _read_test_text(run: Any, folder: Path) -> _TestText:
    text = (folder / "test.txt").read_text(encoding="utf-8")
    corpus = Corpus.from_texts(text, run.tokenizer, documents=run.settings.data.documents)
    objective = build_token_objective(run.settings, TokenProperties(run.tokenizer))
    count = min(MAX_SEGMENTS, corpus.num_tokens // objective.length)
    if count < 2:
        raise UserError(
            f"the test text has {corpus.num_tokens:,} tokens, but at least two windows of {objective.length:,} are "
            "needed; use more text"
        )
    return _TestText(corpus, objective, np.linspace(0, corpus.num_tokens, count + 1).astype(int).tolist())


def _describe_segment(runs: Sequence[Any], texts: Sequence[_TestText], index: int) -> dict[str, Any]:
    decode, edges = runs[0].detokenizer.decode, texts[0].edges
    segment_ids = texts[0].corpus.read(np.array([edges[index]]), edges[index + 1] - edges[index])[0].tolist()
    description = {"text": decode(segment_ids), "truth": ""}
    if {run.objective for run in runs} not in ({"causal"}, {"masked"}, {"blank"}):
        return description
    first_item = np.zeros(1, int)
    batches = [text.objective.batch(text.segment(index), first_item, first_item, VALIDATION_EPOCH) for text in texts]
    batch = batches[0]
    if any(not torch.equal(b.ids, batch.ids) or not torch.equal(b.targets, batch.targets) for b in batches):
        return description
    logits_at = torch.arange(batch.ids.numel()) if batch.logits_at is None else batch.logits_at
    if not len(logits_at):
        return description
    log_probs = [_log_probabilities(run.model, b, logits_at) for run, b in zip(runs, batches, strict=True)]
    targets = batch.targets.flatten()
    of_target = torch.stack([log_prob.gather(-1, targets[:, None])[:, 0] for log_prob in log_probs])  # (runs, targets)
    chosen = int((of_target.max(0).values - of_target.min(0).values).argmax())
    outputs = []
    for run, log_prob, target in zip(runs, log_probs, of_target, strict=True):
        top = int(log_prob[chosen].argmax())
        p_top, p_target = log_prob[chosen, top].exp(), target[chosen].exp()
        outputs.append(f"{_decode_token(run, top)} ({p_top:.1%}); the correct token has {p_target:.1%}")
    position, ids = int(logits_at[chosen]), batch.ids.flatten().tolist()
    if runs[0].objective == "causal":
        prompt = decode(ids[max(0, position + 1 - CONTEXT_TOKENS) : position + 1])
    else:
        before, after = ids[max(0, position - CONTEXT_TOKENS) : position], ids[position + 1 :][:CONTEXT_TOKENS]
        prompt = f"{decode(before)} {MASK_TOKEN} {decode(after)}"
    truth = _decode_token(runs[0], int(targets[chosen]))
    return {"text": prompt, "truth": truth, "outputs": outputs, "prompt": prompt}


@torch.no_grad()
def _log_probabilities(model: nn.Module, batch: TokenBatch, logits_at: Tensor) -> Tensor:
    """Log probabilities of the vocabulary at each position, (k, vocab)."""
    segments = {} if batch.segments is None else {"segments": batch.segments}
    output = model(batch.ids, logits_at=logits_at, **segments)
    logits = (output[0] if isinstance(output, tuple) else output).float()
    return logits - logits.logsumexp(-1, keepdim=True)


def _decode_token(run: Any, id: int) -> str:
    return run.detokenizer.decode([id]).replace("\n", "⏎").strip() or run.tokenizer.token(id)
