"""Subword embeddings: words with a similar spelling share a part of their vectors."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import regard
from regard.errors import UserError
from regard.layers.subword_embedding import LENGTHS, MAX_NGRAMS, SubwordEmbedding, ngram_buckets, sum_ngrams
from regard.models import birnn
from regard.tasks import warm_start
from regard.tasks.build_settings import build_settings

ROWS = 997


def fnv(run: str) -> int:
    """FNV-1a over characters, folded to half its bits and put into a row, as a person would write it."""
    key = 0xCBF29CE484222325
    for letter in run:
        key = (key ^ ord(letter)) * 0x100000001B3 % 2**64
    return (key ^ key >> 32) % ROWS + 1


def runs_of(word: str) -> list[int]:
    whole = f"<{word}>" if word else ""
    every = [whole[i : i + n] for n in LENGTHS for i in range(len(whole) - n + 1)]
    return [fnv(run) for run in every][:MAX_NGRAMS]


@given(st.lists(st.text(max_size=20), max_size=6))
def test_buckets_equal_a_plain_loop(words: list[str]):
    words = [word.replace("\0", "") for word in words]
    found = ngram_buckets(words, ROWS)
    assert found.shape == (len(words), MAX_NGRAMS)
    for row, word in zip(found, words, strict=True):
        wanted = runs_of(word)
        assert row.tolist() == wanted + [0] * (MAX_NGRAMS - len(wanted))


def test_chunks_of_words_give_the_same_buckets(monkeypatch: pytest.MonkeyPatch):
    words = [f"word{i}" for i in range(50)]
    whole = ngram_buckets(words, ROWS)
    monkeypatch.setattr("regard.layers.subword_embedding._CHUNK", 7)
    assert np.array_equal(ngram_buckets(words, ROWS), whole)


def test_a_word_is_the_sum_of_its_ngrams():
    layer = SubwordEmbedding(4, ROWS, 5)
    assert layer(torch.arange(4)).abs().sum() == 0  # nothing is known of the letters yet
    layer.set_words(["", "cat", "cats", "a" * 500])
    rows = torch.tensor(runs_of("cats")) - 1
    assert len(rows) == 4 + 3 + 2  # <ca cat ats ts>  <cat cats ats>  <cats cats>
    wanted = layer.buckets.weight[rows].sum(0) / 3
    ids = torch.tensor([[2, 0], [1, 2]])
    found = layer(ids)
    torch.testing.assert_close(found[0, 0], wanted)
    assert torch.equal(found[0, 0], found[1, 1])
    assert found[0, 1].abs().sum() == 0
    assert torch.isfinite(layer(torch.tensor([3]))).all()
    torch.testing.assert_close(found, sum_ngrams(layer.buckets.weight, layer.ngrams)[ids])


def test_gradients_reach_only_the_ngrams_of_the_words():
    layer = SubwordEmbedding(3, ROWS, 5)
    layer.set_words(["", "cat", "dog"])
    layer(torch.tensor([1, 1])).sum().backward()
    assert layer.buckets.weight.grad is not None
    touched = layer.buckets.weight.grad.abs().sum(1).nonzero()[:, 0] + 1
    assert set(touched.tolist()) == set(runs_of("cat"))


def test_all_uses_of_embeddings_include_subwords():
    """All logits, the sampled softmax, and the input."""
    torch.manual_seed(0)
    vocab = ["", "", *(f"w{i}" for i in range(20))]
    model = birnn.BiRNNConfig(dim=8, hidden=6, subword_buckets=50).build(len(vocab)).eval()
    model.set_vocabulary(vocab)
    ids = torch.randint(2, len(vocab), (2, 9))
    plain = birnn.BiRNNConfig(dim=8, hidden=6).build(len(vocab)).eval()
    folded = {k: v for k, v in model.state_dict().items() if not k.startswith("subwords.")}
    folded["embed.weight"] = folded["embed.weight"] + sum_ngrams(model.subwords.buckets.weight, model.subwords.ngrams)
    plain.load_state_dict(folded)
    torch.testing.assert_close(model(ids), plain(ids))
    options = {"logits_at": torch.arange(18), "targets": ids.flatten(), "negatives": torch.arange(5, 15)}
    options["log_weights"] = torch.zeros(10)
    torch.testing.assert_close(model(ids, **options), plain(ids, **options))


TEXT = "the painter painted a painting\nthe singers sing a song\nthe dancer dances and the dancers danced\n" * 30


@pytest.mark.parametrize(("cell", "partner"), [("gru", "han"), ("lstm", "bilstm")])
def test_a_classifier_starts_from_embeddings_with_subwords(cell: str, partner: str, tmp_path: Path):
    text, reviews = tmp_path / "text.txt", tmp_path / "reviews.tsv"
    text.write_text(TEXT)
    reviews.write_text("label\ttext\n" + "good\tthe singer sang\nbad\tthe painter painted\n" * 20)
    settings = {
        "objective": "blank",
        "corruption": {"sampled": 6},
        "tokenizer": {"kind": "words", "vocab_size": 40},
        "data": {"block_size": 16, "batch_tokens": 128},
        "model": {"name": "birnn", "dim": 8, "hidden": 6, "cell": cell, "subword_buckets": 64},
    }
    run = regard.train("language", text, settings=settings, steps=20, out=tmp_path / "words", progress=False)
    again = regard.load(tmp_path / "words")
    assert (again.model.subwords.ngrams > 0).any(1)[6:].all()
    assert run.fill("the [MASK] danced") == again.fill("the [MASK] danced")
    tree = {"warm_start": str(run.folder), "data": {"train": str(reviews)}}
    chosen = build_settings("classify", warm_start.adopt_settings("classify", tree))
    assert chosen.model_name == partner
    net = chosen.model.build(run.config["vocab_size"], 2)
    account = warm_start.transfer_weights(net, chosen)
    assert "embedding.weight" in account.loaded
    assert not any("subwords" in name for name in account.skipped)
    every = torch.arange(1, run.config["vocab_size"])
    torch.testing.assert_close(net.embedding(every), run.model.embed_tokens(every))
    more = {key: value for key, value in settings.items() if key != "tokenizer"}
    given = {"warm_start": run.folder, "steps": 1, "out": tmp_path / "more", "progress": False}
    begun = regard.train("language", text, settings=more, **given)
    assert any("subwords" in name for name in begun.config["warm_start"]["loaded"])


def test_a_negative_number_of_buckets_is_an_error():
    with pytest.raises(UserError, match="buckets must be at least 1"):
        birnn.BiRNNConfig(subword_buckets=-3).build(20)
