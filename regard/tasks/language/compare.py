"""Compare language models: nats a token of the test text.

An item is a stretch of the test text of one window or more, scored by itself; neighbours come from the same text, so
intervals are as if stretches were drawn one by one. All designs must cut the text into the same tokens."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

from regard.data import chunks
from regard.data.corpus import Corpus
from regard.data.tokenizer import MASK, SPECIAL_TOKENS
from regard.data.train_valid_split import count_duplicates
from regard.data.vocabulary import Vocabulary
from regard.errors import UserError
from regard.tasks.comparison import PARTS, ComparisonAdapter, ComparisonMetric, ItemScores, ratio_of_sums, load_item_stats
from regard.tasks.language.objective import build_token_objective

logger = logging.getLogger(__name__)

MOST = 400
"""Stretches of the test text."""
VALID = 2**32 - 1
"""The epoch by which words are hidden for validation, and here."""
SHOWN = 40
"""Tokens around a word that are shown."""
MARK = SPECIAL_TOKENS[MASK]
LONG = 30
"""Characters from which on a line that stands in two parts is counted: short ones repeat in any text."""


def _perplexity(sums: np.ndarray) -> np.ndarray:
    return np.exp(np.minimum(ratio_of_sums(sums), 700.0))


METRICS = (
    ComparisonMetric("loss", "min", "number", "nats a token (of masked or blank words: of those)", ratio_of_sums, maximum=math.inf),
    ComparisonMetric("perplexity", "min", "number", "exp of the nats a token", _perplexity, maximum=math.inf),
)


def _lines(files: Sequence[str]) -> list[str]:
    found, notes = chunks.find_text_files(files)
    for note in notes:
        logger.info(note)
    blocks = (block.data.decode("utf-8", "replace") for file in found for block in chunks.read_blocks(file))
    return "".join(blocks).splitlines(keepends=True)


def _cut(lines: list[str], share: float) -> tuple[list[str], list[str]]:
    """The last so many characters, from the beginning of a line."""
    ends = np.cumsum([len(line) for line in lines])
    at = int(np.searchsorted(ends, (1 - share) * ends[-1])) if len(lines) else 0
    if not 0 < at < len(lines):
        raise UserError(f"{len(lines)} lines of text cannot be cut into parts; more of it is wanted, or parts as files")
    return lines[:at], lines[at:]


def _stretches(run: Any, folder: Path) -> tuple[Corpus, Any, list[int]]:
    """The test text, what was learnt, and where stretches begin and end."""
    text = Corpus.from_texts(
        (folder / "test.txt").read_text(encoding="utf-8"), run.tokenizer, documents=run.settings.data.documents
    )
    learnt = build_token_objective(run.settings, Vocabulary(run.tokenizer))
    count = min(MOST, text.num_tokens // learnt.length)
    if count < 2:
        raise UserError(
            f"the test text has {text.num_tokens:,} tokens; at least two windows of {learnt.length:,} are wanted"
        )
    return text, learnt, np.linspace(0, text.num_tokens, count + 1).astype(int).tolist()


def _word(runs: Sequence[Any], read: Sequence[tuple[Corpus, Any, list[int]]], number: int) -> dict[str, Any]:
    text, _, edges = read[0]
    ids = text.read(np.array([edges[number]]), edges[number + 1] - edges[number])[0].tolist()
    told = {"text": runs[0].detokenizer.decode(ids), "truth": ""}
    if {run.objective for run in runs} not in ({"causal"}, {"masked"}, {"blank"}):
        return told
    batches = [
        made.batch(t.slice(*e[number : number + 2]), np.zeros(1, int), np.zeros(1, int), VALID) for t, made, e in read
    ]
    first = batches[0]
    if any(not torch.equal(b.ids, first.ids) or not torch.equal(b.targets, first.targets) for b in batches):
        return told
    places = torch.arange(first.ids.numel()) if first.places is None else first.places
    if not len(places):
        return told
    logs = [_logs(run.model, batch, places) for run, batch in zip(runs, batches, strict=True)]
    targets = first.targets.flatten()
    of_truth = torch.stack([log.gather(-1, targets[:, None])[:, 0] for log in logs])  # (runs, places)
    at = int((of_truth.max(0).values - of_truth.min(0).values).argmax())
    said = []
    for run, log, truth in zip(runs, logs, of_truth, strict=True):
        top = int(log[at].argmax())
        said.append(f"{_spelled(run, top)} ({log[at, top].exp():.1%}), and the true word with {truth[at].exp():.1%}")
    place, row, spell = int(places[at]), first.ids.flatten().tolist(), runs[0].detokenizer.decode
    if runs[0].objective == "causal":
        asked = spell(row[max(0, place + 1 - SHOWN) : place + 1])
    else:
        asked = f"{spell(row[max(0, place - SHOWN) : place])} {MARK} {spell(row[place + 1 : place + 1 + SHOWN])}"
    return {"text": asked, "truth": _spelled(runs[0], int(targets[at])), "said": said, "asked": asked}


@torch.no_grad()
def _logs(net: Any, batch: Any, places: torch.Tensor) -> torch.Tensor:
    """log p of every word at the places."""
    given = {} if batch.segments is None else {"segments": batch.segments}
    found = net(batch.ids, logits_at=places, **given)
    logits = (found[0] if isinstance(found, tuple) else found).float()
    return logits - logits.logsumexp(-1, keepdim=True)


def _spelled(run: Any, id: int) -> str:
    return run.detokenizer.decode([id]).replace("\n", "⏎").strip() or run.tokenizer.token(id)


class LanguageComparison(ComparisonAdapter):
    metrics = METRICS
    quality_name = "nats a token"

    def split_data(
        self, settings: Any, test: Sequence[str] | None, share: float, seed: int, folder: Path
    ) -> dict[str, Any]:
        """The last lines are for the test, those before for validation: a text goes on, and lines by chance would be known
        from their neighbours."""
        given = settings.data
        lines = {"train": _lines(given.train)}
        for part, files, size in (
            ("test", test, share),
            ("valid", None if given.valid is None else [given.valid], given.valid_fraction),
        ):
            if files is not None:
                lines[part] = _lines(files)
            else:
                lines["train"], lines[part] = _cut(lines["train"], size)
        for part, made in lines.items():
            (folder / f"{part}.txt").write_text("".join(made), encoding="utf-8")
        long = {part: [line for line in made if len(line) >= LONG] for part, made in lines.items()}
        return {
            "items": {part: len(lines[part]) for part in PARTS},
            "repeated": {
                "test in training": count_duplicates(long["train"], long["test"]),
                "validation in training": count_duplicates(long["train"], long["valid"]),
            },
            "evidence": False,
        }

    def data_settings(self, folder: Path, facts: Mapping[str, Any]) -> dict[str, Any]:
        files = {"train": [str(folder / "train.txt")], "valid": str(folder / "valid.txt")}
        return {**files, "cache": str(folder / "tokens")}  # once for all runs

    def score(self, run: Any, folder: Path) -> ItemScores:
        text, learnt, edges = _stretches(run, folder)
        rows = []
        for start, stop in pairwise(edges):
            found = learnt.evaluate(run.model, text.slice(start, stop))
            rows.append((found["loss"] * (stop - start), stop - start))
        stats = np.array(rows, np.float64)
        said = [{"loss": nats / count, "tokens": int(count)} for nats, count in rows]
        return ItemScores({"loss": stats, "perplexity": stats}, said)

    def latency_queries(self, run: Any, folder: Path, count: int) -> list[Callable[[], Any]]:
        """The chances of the next word (or of those in blanks) after a window."""
        text = Corpus.from_texts((folder / "valid.txt").read_text(encoding="utf-8"), run.tokenizer)
        length = min(run.settings.data.block_size, text.num_tokens)
        starts = np.linspace(0, text.num_tokens - length, count).astype(int)

        def one(start: int) -> Any:
            ids = torch.from_numpy(text.read(np.array([start]), length))
            with torch.no_grad():
                return run.model(ids, logits_at=torch.tensor([length - 1]))

        return [lambda start=int(start): one(start) for start in starts]

    def item_quality(self, file: Path) -> np.ndarray:
        nats = load_item_stats(file, "loss")
        return -nats[:, 0] / nats[:, 1]

    def describe_items(self, folder: Path, numbers: Sequence[int], runs: Sequence[Any]) -> list[dict[str, Any]]:
        """Of each stretch the word of which the runs think most differently: what stands before it, and what each says."""
        read = [_stretches(run, folder) for run in runs]
        return [_word(runs, read, number) for number in numbers]
