"""A GPT told its last words as pairs and triples: the sum by hand, going on from a memory, writing, learning."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import regard
from regard.decoding import GREEDY, generate
from regard.decoding.causal_decoders import CachedDecoder, OptimizedDecoder, UncachedDecoder, build_causal_decoder
from regard.errors import UserError
from regard.layers.ngram_embedding import NGramEmbedding
from regard.models import ngram_gpt

VOCAB = 23


def net(**more) -> ngram_gpt.NGramGPT:
    torch.manual_seed(0)
    made = ngram_gpt.NGramGPTConfig(dim=24, layers=2, heads=2, ngrams=3, table_size=600, **more).build(VOCAB)
    with torch.no_grad():
        for p in made.parameters():
            p.add_(0.3 * torch.randn_like(p))
    return made.eval()


def test_the_sum_over_pairs_and_triples_by_hand():
    layer = NGramEmbedding(VOCAB, 5, most=3, table_size=VOCAB**3)  # each has a row of its own
    with torch.no_grad():
        for table in layer.tables:
            torch.nn.init.normal_(table.weight)
    ids = [7, 3, 11, 3]
    pairs, triples = (table.weight for table in layer.tables)
    padded = [0, 0, *ids]
    for t, row in enumerate(layer(torch.tensor([ids]))[0]):
        first, second, third = padded[t : t + 3]
        pair, triple = third * VOCAB + second, (third * VOCAB + second) * VOCAB + first
        torch.testing.assert_close(row, pairs[pair] + triples[triple])


@pytest.mark.parametrize("table", [2, 97, 10_000])
def test_buckets_lie_in_the_table_and_are_filled_evenly(table: int):
    layer = NGramEmbedding(50_000, 1, most=4, table_size=table)
    ids = torch.randint(0, 50_000, (64, 512), generator=torch.Generator().manual_seed(0))
    used = torch.zeros(table)

    def count(_: torch.nn.Module, given: tuple) -> None:
        used.add_(given[0].flatten().bincount(minlength=table))

    list(layer.tables)[2].register_forward_pre_hook(count)
    layer(ids)
    assert used.sum() == ids.numel()
    expected = ids.numel() / table
    assert used.max() < expected + 8 * expected**0.5 + 8


def test_it_starts_as_the_plain_gpt():
    made = ngram_gpt.NGramGPTConfig(dim=24, layers=2, heads=2).build(VOCAB)
    ids = torch.randint(6, VOCAB, (2, 9))
    torch.testing.assert_close(made.embed_tokens(ids), made.embed(ids))


@torch.inference_mode()
def test_going_on_is_reading_at_once():
    made, ids = net(), torch.randint(6, VOCAB, (3, 12))
    whole = made(ids)
    for cuts in ([12], [1] * 12, [5, 1, 1, 5], [2, 10]):
        past, parts = None, []
        for part in ids.split(cuts, 1):
            logits, past = made.step(part, past)
            parts.append(logits)
        torch.testing.assert_close(torch.cat(parts, 1), whole, atol=1e-5, rtol=1e-4)


@torch.inference_mode()
def test_no_word_is_seen_before_its_turn():
    made, ids = net(), torch.randint(6, VOCAB, (1, 12))
    other = ids.clone()
    other[:, 7] = 6 + (other[:, 7] - 5) % (VOCAB - 6)
    same = (made(ids) == made(other)).all(-1)[0]
    assert same[:7].all()
    assert not same[7:].any()


@torch.inference_mode()
def test_all_ways_through_it_give_the_same_logits():
    made = net()
    ways = [UncachedDecoder(made), CachedDecoder(made), build_causal_decoder(made)]
    assert isinstance(ways[2], OptimizedDecoder)
    for texts in ([[7, 8, 9, 10], [12], [13, 14]], [[9, 8, 7], [6, 7, 8]]):
        words = torch.tensor([[11, 12, 13][: len(texts)], [7, 9, 8][: len(texts)]])
        rows, seen = torch.tensor([1, 0, 1]), []
        for way in ways:
            out = [way.read(texts, 8)] + [way.step(w) for w in words]
            way.select(rows)
            seen.append(torch.cat(out + [way.step(w[rows]) for w in words]))
        torch.testing.assert_close(seen[1], seen[0], atol=2e-4, rtol=1e-4)
        torch.testing.assert_close(seen[2], seen[0], atol=2e-4, rtol=1e-4)
    alone = [generate(made, [p], max_new_tokens=6, sampling=GREEDY, stop_ids=())[0][0].ids for p in ([7, 8, 9], [12])]
    both = generate(made, [[7, 8, 9], [12]], max_new_tokens=6, sampling=GREEDY, stop_ids=())
    assert [samples[0].ids for samples in both] == alone


def test_triples_are_learnt_at_once(tmp_path: Path):
    """One layer that attends to nothing but itself could not know the word before; the table does."""
    (tmp_path / "text.txt").write_text("abcadbacdb" * 400)
    settings = {
        "model": {"dim": 16, "layers": 1, "heads": 1, "ngrams": 3, "table_size": 2000, "mechanism": "local:window=1"},
        "data": {"block_size": 20, "batch_tokens": 320},
        "tokenizer": {"kind": "chars"},
        "train": {"steps": 60, "lr": 0.02},
    }
    run = regard.train(
        "language", tmp_path / "text.txt", model="ngram-gpt", out=tmp_path / "run", settings=settings, progress=False,
        )  # fmt: skip
    assert run.metrics["loss"] < 0.35
    assert regard.load(run.folder).metrics == run.metrics


@torch.inference_mode()
def test_an_adaptive_head_gives_chances_and_the_same_loss_by_the_short_way():
    made, ids = net(cutoffs=(9, 15)), torch.randint(6, VOCAB, (2, 8))
    logits = made(ids)
    torch.testing.assert_close(logits.exp().sum(-1), torch.ones(2, 8))
    targets = torch.randint(6, VOCAB, (2, 8))
    long = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
    torch.testing.assert_close(made(ids, targets=targets), long.view(2, 8))
    whole = net()
    torch.testing.assert_close(
        whole(ids, targets=targets).sum(),
        torch.nn.functional.cross_entropy(whole(ids).flatten(0, 1), targets.flatten(), reduction="sum"),
    )
    at = torch.tensor([3, 9])
    torch.testing.assert_close(made(ids, logits_at=at), logits.flatten(0, 1)[at])
    way = build_causal_decoder(made)
    torch.testing.assert_close(way.read(ids.tolist(), 2), logits[:, -1], atol=1e-5, rtol=1e-5)


def test_an_adaptive_head_is_trained_and_measured(tmp_path: Path):
    (tmp_path / "text.txt").write_text("one two three four five six\n" * 300)
    settings = {
        "model": {"dim": 16, "layers": 1, "heads": 1, "ngrams": 2, "cutoffs": [8, 10]},
        "data": {"block_size": 14, "batch_tokens": 140},
        "tokenizer": {"kind": "spaces"},
        "train": {"steps": 60, "lr": 0.02, "optimizer": "muon"},
    }
    run = regard.train(
        "language", tmp_path / "text.txt", model="ngram-gpt", out=tmp_path / "run", settings=settings, progress=False,
        )  # fmt: skip
    assert run.metrics["word_perplexity"] < 1.3
    again = regard.load(run.folder)
    assert again.evaluate(tmp_path / "text.txt")["word_perplexity"] < 1.3
    assert again.generate("one two", tokens=3, temperature=0.0)[0].text.split()[:3] == ["three", "four", "five"]


def test_what_cannot_be_meant():
    with pytest.raises(UserError, match="must rise"):
        ngram_gpt.NGramGPTConfig(cutoffs=(15, 9)).build(VOCAB)
    with pytest.raises(UserError, match="vocabulary of 23"):
        ngram_gpt.NGramGPTConfig(cutoffs=(9, 99)).build(VOCAB)
    with pytest.raises(UserError, match="ngrams=1"):
        ngram_gpt.NGramGPTConfig(ngrams=1).build(VOCAB)
    with pytest.raises(UserError, match="table"):
        ngram_gpt.NGramGPTConfig(table_size=0).build(VOCAB)
