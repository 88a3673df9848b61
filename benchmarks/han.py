"""Training a hierarchical attention network: sentences in groups of like length (regard) beside the plain padded
(batch, sentences, words) block, side by side on the same documents.

    python benchmarks/han.py              # writes benchmarks/results/han.json
    python benchmarks/han.py --quick      # a few seconds, writes nothing

Three ways, all with the same sizes, the same weights at the start (their outputs are compared first) and the same
optimizer; the same number of documents goes into the average batch (16,384 tokens are about 45 reviews; Yang et al.
2016 take 64):

    regard     batches of like length (regard.data.batches), sentences in groups of like length, BidirectionalRNN GRUs
    padded     documents in random order, one (batch, sentences, words) block padded to the batch's longest, both levels
               by nn.GRU(bidirectional=True) over all of it, attention masked. The GRU that reads backwards starts in
               the padding and so reaches other states; that is what plain implementations compute
    packed     the same block, but words and sentences packed (pack_padded_sequence), which skips padding in the GRUs

Documents are the 25,000 reviews of ../shared/data/imdb where they are present, otherwise made with like lengths. An
epoch's time is the median over rounds of the time for the same sample of documents, times all over sample; --whole
takes every document.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import timing
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.data import batches, documents, tokenizer
from regard.data.documents import TokenizedDocuments
from regard.data.read_table import read_table
from regard.models import han
from regard.tasks.classify.objective import collate, sentence_ids
from regard.training import environment as workshop

IMDB = Path(__file__).parent.parent.parent / "shared" / "data" / "imdb" / "train.tsv.gz"
VOCAB, WORDS, SENTENCES = 20_000, 100, 60
"""All ways read at most so many words of a sentence and sentences of a document, or the padded block would not fit."""


class Level(nn.Module):
    """GRUs both ways and attention over (rows, n), as public implementations write it."""

    def __init__(self, dim: int, hidden: int, attention: int):
        super().__init__()
        self.gru = nn.GRU(dim, hidden, batch_first=True, bidirectional=True)
        self.project, self.context = nn.Linear(2 * hidden, attention), nn.Linear(attention, 1, bias=False)

    def forward(self, x: Tensor, lengths: Tensor, packed: bool) -> Tensor:
        if packed:  # a row without a word cannot be packed: it counts as one word, and is masked
            rows = pack_padded_sequence(x, lengths.clamp(min=1), batch_first=True, enforce_sorted=False)
            h, _ = pad_packed_sequence(self.gru(rows)[0], batch_first=True, total_length=x.shape[1])
        else:
            h, _ = self.gru(x)
        real = torch.arange(x.shape[1]) < lengths.clamp(min=1)[:, None]
        scores = self.context(torch.tanh(self.project(h)))[..., 0].masked_fill(~real, -1e9)
        return (scores.softmax(-1)[:, None] @ h)[:, 0]


class Padded(nn.Module):
    """(batch, sentences, words) to classes."""

    def __init__(self, embed: int, hidden: int, attention: int, *, packed: bool):
        super().__init__()
        self.packed = packed
        self.embedding = nn.Embedding(VOCAB, embed, padding_idx=0)
        self.words, self.sentences = Level(embed, hidden, attention), Level(2 * hidden, hidden, attention)
        self.head = nn.Linear(2 * hidden, 2)

    def forward(self, ids: Tensor) -> Tensor:
        b, s, w = ids.shape
        rows = ids.view(b * s, w)
        lengths = (rows != 0).sum(1)
        vectors = self.words(self.embedding(rows), lengths, self.packed).view(b, s, -1)
        vectors = vectors * (lengths.view(b, s, 1) > 0)
        return self.head(self.sentences(vectors, (lengths.view(b, s) > 0).sum(1), self.packed))


def copy(ours: han.HAN, theirs: Padded) -> None:
    """The weights of ours, so that both compute the same."""
    theirs.embedding.load_state_dict(ours.embedding.state_dict())
    theirs.head.load_state_dict(ours.head.state_dict())
    pairs = ((ours.word_rnn, ours.word_pool, theirs.words), (ours.sentence_rnn, ours.sentence_pool, theirs.sentences))
    for two_way, pool, level in pairs:
        level.project.load_state_dict(pool.project.state_dict())
        level.context.load_state_dict(pool.context.state_dict())
        turned = {f"{name}_reverse": value for name, value in two_way.back.state_dict().items()}
        level.gru.load_state_dict(two_way.onward.state_dict() | turned)


def made(count: int) -> TokenizedDocuments:
    """Documents with lengths like film reviews: 13 sentences of 20 words in the middle, both log-normal."""
    random = np.random.default_rng(0)
    counts = np.clip(np.exp(random.normal(np.log(10), 0.6, count)), 1, SENTENCES).astype(int)
    lengths = np.clip(np.exp(random.normal(np.log(18), 0.65, counts.sum())), 1, WORDS).astype(int)
    starts = np.concatenate([[0], lengths.cumsum()])
    of = np.concatenate([[0], counts.cumsum()])
    return TokenizedDocuments(random.integers(6, VOCAB, starts[-1]).astype(np.int32), starts[of], starts[:-1], of)


def reviews() -> TokenizedDocuments:
    table = read_table(IMDB, text="3", label="0")
    return documents.encode_documents(table.texts, tokenizer.train_tokenizer(table.texts, "words", VOCAB))


def cut(found: TokenizedDocuments, chosen: np.ndarray) -> TokenizedDocuments:
    """The chosen documents, each with its first sentences, each with its first words."""
    ids: list[np.ndarray] = []
    of = [0]
    for i in chosen:
        words, bounds = found.document(int(i))
        ids += [words[a : min(b, a + WORDS)] for a, b in pairwise(bounds[: SENTENCES + 1])]
        of.append(len(ids))
    starts = np.cumsum([0, *map(len, ids)])
    return TokenizedDocuments(np.concatenate(ids), starts[of], starts[:-1], np.array(of))


def block(found: TokenizedDocuments, indices: np.ndarray) -> Tensor:
    """One padded (batch, sentences, words)."""
    parts = []
    for i in indices:
        words, bounds = found.document(int(i))
        parts.append([words[a:b] for a, b in pairwise(bounds)])
    ids = np.zeros((len(parts), max(map(len, parts)), max(len(s) for p in parts for s in p)), np.int64)
    for row, sentences in enumerate(parts):
        for number, words in enumerate(sentences):
            ids[row, number, : len(words)] = words
    return torch.from_numpy(ids)


def work(found: TokenizedDocuments, tokens: int) -> tuple[dict[str, Callable[[], None]], dict[str, object]]:
    """An epoch over these documents in each way, and what is known of them."""
    torch.manual_seed(0)
    config = han.HANConfig(dropout=0.0)
    ours = config.build(VOCAB, 2)
    ways = {
        way: Padded(config.embed, config.hidden, config.attention, packed=way == "packed")
        for way in ("padded", "packed")
    }
    with torch.no_grad():
        for p in ours.parameters():  # fresh ones are so small that much could differ unseen
            p.add_(0.1 * torch.randn_like(p))
    for net in ways.values():
        copy(ours, net)
    numbers, labels = sentence_ids(found), np.arange(len(found)) % 2
    alike = batches.plan_batches(found.lengths, tokens, seed=0, epoch=0)
    order, size = np.random.default_rng(1).permutation(len(found)), round(len(found) / len(alike))
    chunks = [order[i : i + size] for i in range(0, len(order), size)]

    few = order[:4]
    batch = collate(found, numbers, labels, few)
    with torch.no_grad():
        mine, theirs = ours(batch.ids, batch.mask, batch.sentences).logits, ways["packed"](block(found, few))
    difference = float((mine - theirs).abs().max())
    assert difference < 1e-4, f"the two do not compute the same: {difference}"

    def epoch(net: nn.Module, plan: list[np.ndarray], logits: Callable[[np.ndarray], Tensor]) -> Callable[[], None]:
        step = torch.optim.AdamW(net.parameters(), 1e-3, fused=True)

        def run() -> None:
            for indices in plan:
                F.cross_entropy(logits(indices), torch.from_numpy(labels[indices])).backward()
                nn.utils.clip_grad_norm_(net.parameters(), 1.0)
                step.step()
                step.zero_grad(set_to_none=True)

        return run

    def grouped(indices: np.ndarray) -> Tensor:
        batch = collate(found, numbers, labels, indices)
        return ours(batch.ids, batch.mask, batch.sentences).logits

    runs = {"regard": epoch(ours, alike, grouped)}
    runs |= {way: epoch(net, chunks, lambda i, net=net: net(block(found, i))) for way, net in ways.items()}
    places = sum(block(found, indices).numel() for indices in chunks)
    known = {
        "documents": len(found),
        "tokens": len(found.ids),
        "documents_in_a_batch": size,
        "real_places_of_the_padded_block": round(len(found.ids) / places, 4),
        "largest_difference_of_logits": difference,
    }
    return runs, known


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--whole", action="store_true", help="every document, not a sample")
    parser.add_argument("--sample", type=int, default=1500)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=16_384, help="in a batch, as data.batch_tokens")
    given = parser.parse_args()
    workshop.prepare_process()
    real = IMDB.is_file() and not given.quick
    whole = reviews() if real else made(200 if given.quick else 25_000)
    count = len(whole) if given.whole or given.quick else min(given.sample, len(whole))
    sample = cut(whole, np.random.default_rng(0).permutation(len(whole))[:count])
    runs, known = work(sample, given.tokens)
    times = timing.in_turns(runs, rounds=1 if given.quick else given.rounds, warm=0 if given.quick else 1)
    result = {
        "machine": timing.machine(),
        "data": "imdb" if real else "made here",
        **known,
        "seconds_an_epoch": {
            way: round(statistics.median(t) * len(whole) / len(sample), 1) for way, t in times.items()
        },
        "times_faster_than": {way: timing.ratio(times, way, "regard") for way in ("padded", "packed")},
    }
    print(json.dumps(result, indent=2))
    if not given.quick:
        Path("benchmarks/results/han.json").write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
