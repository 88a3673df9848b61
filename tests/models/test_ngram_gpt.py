"""The n-gram GPT: its embeddings, its KV cache, generation, training and the adaptive softmax."""

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


def build_model(**options) -> ngram_gpt.NGramGPT:
    torch.manual_seed(0)
    model = ngram_gpt.NGramGPTConfig(dim=24, layers=2, heads=2, ngrams=3, table_size=600, **options).build(VOCAB)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.3 * torch.randn_like(p))
    return model.eval()


def test_embeddings_are_the_sum_over_pairs_and_triples():
    layer = NGramEmbedding(VOCAB, 5, max_n=3, table_size=VOCAB**3)  # each n-gram has its own row
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
def test_buckets_are_in_the_table_and_filled_evenly(table: int):
    layer = NGramEmbedding(50_000, 1, max_n=4, table_size=table)
    ids = torch.randint(0, 50_000, (64, 512), generator=torch.Generator().manual_seed(0))
    used = torch.zeros(table)

    def count(_: torch.nn.Module, given: tuple) -> None:
        used.add_(given[0].flatten().bincount(minlength=table))

    list(layer.tables)[2].register_forward_pre_hook(count)
    layer(ids)
    assert used.sum() == ids.numel()
    expected = ids.numel() / table
    assert used.max() < expected + 8 * expected**0.5 + 8


def test_it_is_initialized_as_a_plain_gpt():
    model = ngram_gpt.NGramGPTConfig(dim=24, layers=2, heads=2).build(VOCAB)
    ids = torch.randint(6, VOCAB, (2, 9))
    torch.testing.assert_close(model.embed_tokens(ids), model.embed(ids))


@torch.inference_mode()
def test_steps_with_a_cache_equal_one_pass():
    model, ids = build_model(), torch.randint(6, VOCAB, (3, 12))
    whole = model(ids)
    for lengths in ([12], [1] * 12, [5, 1, 1, 5], [2, 10]):
        cache, parts = None, []
        for part in ids.split(lengths, 1):
            logits, cache = model.step(part, cache)
            parts.append(logits)
        torch.testing.assert_close(torch.cat(parts, 1), whole, atol=1e-5, rtol=1e-4)


@torch.inference_mode()
def test_no_token_depends_on_later_ones():
    model, ids = build_model(), torch.randint(6, VOCAB, (1, 12))
    other = ids.clone()
    other[:, 7] = 6 + (other[:, 7] - 5) % (VOCAB - 6)
    same = (model(ids) == model(other)).all(-1)[0]
    assert same[:7].all()
    assert not same[7:].any()


@torch.inference_mode()
def test_all_decoders_give_the_same_logits():
    model = build_model()
    decoders = [UncachedDecoder(model), CachedDecoder(model), build_causal_decoder(model)]
    assert isinstance(decoders[2], OptimizedDecoder)
    for texts in ([[7, 8, 9, 10], [12], [13, 14]], [[9, 8, 7], [6, 7, 8]]):
        words = torch.tensor([[11, 12, 13][: len(texts)], [7, 9, 8][: len(texts)]])
        rows, logits = torch.tensor([1, 0, 1]), []
        for decoder in decoders:
            out = [decoder.prefill(texts, 8)] + [decoder.step(w) for w in words]
            decoder.select(rows)
            logits.append(torch.cat(out + [decoder.step(w[rows]) for w in words]))
        torch.testing.assert_close(logits[1], logits[0], atol=2e-4, rtol=1e-4)
        torch.testing.assert_close(logits[2], logits[0], atol=2e-4, rtol=1e-4)
    alone = [generate(model, [p], max_new_tokens=6, sampling=GREEDY, stop_ids=())[0][0].ids for p in ([7, 8, 9], [12])]
    both = generate(model, [[7, 8, 9], [12]], max_new_tokens=6, sampling=GREEDY, stop_ids=())
    assert [samples[0].ids for samples in both] == alone


def test_triples_are_learned_by_the_table(tmp_path: Path):
    """A layer with a window of 1 cannot know the previous token; the table does."""
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
def test_adaptive_softmax_gives_probabilities_and_the_same_loss():
    model, ids = build_model(cutoffs=(9, 15)), torch.randint(6, VOCAB, (2, 8))
    logits = model(ids)
    torch.testing.assert_close(logits.exp().sum(-1), torch.ones(2, 8))
    targets = torch.randint(6, VOCAB, (2, 8))
    long = torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), reduction="none")
    torch.testing.assert_close(model(ids, targets=targets), long.view(2, 8))
    whole = build_model()
    torch.testing.assert_close(
        whole(ids, targets=targets).sum(),
        torch.nn.functional.cross_entropy(whole(ids).flatten(0, 1), targets.flatten(), reduction="sum"),
    )
    logits_at = torch.tensor([3, 9])
    torch.testing.assert_close(model(ids, logits_at=logits_at), logits.flatten(0, 1)[logits_at])
    decoder = build_causal_decoder(model)
    torch.testing.assert_close(decoder.prefill(ids.tolist(), 2), logits[:, -1], atol=1e-5, rtol=1e-5)


def test_adaptive_softmax_is_trained_and_evaluated(tmp_path: Path):
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
    assert again.generate("one two", max_new_tokens=3, temperature=0.0)[0].text.split()[:3] == ["three", "four", "five"]


def test_invalid_options_are_errors():
    with pytest.raises(UserError, match="must be increasing"):
        ngram_gpt.NGramGPTConfig(cutoffs=(15, 9)).build(VOCAB)
    with pytest.raises(UserError, match="vocabulary size 23"):
        ngram_gpt.NGramGPTConfig(cutoffs=(9, 99)).build(VOCAB)
    with pytest.raises(UserError, match="ngrams"):
        ngram_gpt.NGramGPTConfig(ngrams=1).build(VOCAB)
    with pytest.raises(UserError, match="table"):
        ngram_gpt.NGramGPTConfig(table_size=0).build(VOCAB)
