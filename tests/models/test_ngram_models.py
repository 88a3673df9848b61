"""N-grams with naive Bayes: counted by hand, believed in training only without the document's own fold."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import UserError
from regard.layers.ngram_log_ratios import NGramLogRatios, count_ngrams, document_folds
from regard.models import han, ngram_attention
from regard.models.data_hooks import UsesTrainingData
from regard.testing import check_model

VOCAB = 50


def flat(texts: list[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([i for text in texts for i in text], np.int32), np.cumsum([0, *map(len, texts)])


def padded(texts: list[list[int]], width: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    width = max(width, *map(len, texts))
    ids = torch.tensor([text + [0] * (width - len(text)) for text in texts])
    return ids, ids > 0


# Four texts, "7 8" stands in both of class 1 and nowhere else.
TEXTS = [[7, 8, 9], [7, 8], [8, 7, 9], [9, 9, 10]]
LABELS = np.eye(2)[[1, 1, 0, 0]]


def filled(**settings: int) -> NGramLogRatios:
    layer = NGramLogRatios(VOCAB, 2, table_size=40, max_n=2, **settings)
    layer.fit(*flat(TEXTS), LABELS)
    return layer.eval()


def test_ratios_are_those_of_wang_and_manning():
    layer = filled()
    ids, mask = padded([[7, 8]])
    ratio = layer(ids, mask)[0, 0, :, 1]  # of the word 7 and of the pair 7 8, for class 1
    # in two texts or more: 7 (two of class 1, one of 0), 8 (two, one), 9 (one, two), 7 8 (two, none)
    p, q = np.array([3, 3, 2, 3]), np.array([2, 2, 3, 1])
    assert ratio[0].item() == pytest.approx(math.log((p[0] / p.sum()) / (q[0] / q.sum())))
    assert ratio[1].item() == pytest.approx(math.log((p[3] / p.sum()) / (q[3] / q.sum())))
    assert layer(*padded([[10, 11]])).abs().sum() == 0  # of one text only, or of none


def test_a_pair_does_not_reach_into_the_next_text():
    ids, starts = flat([[3, 4], [5, 6], [4, 5]])  # "4 5" stands in one text, though twice in the flat ids
    found = count_ngrams(ids, starts, np.ones((3, 1)), vocab_size=VOCAB, max_n=2, folds=2)
    assert found.keys.tolist() == [4, 5]
    layer = filled()
    ids, mask = padded([[7]], width=4)
    ids[0, 1] = 8  # stands in the padding
    assert (layer.rows(ids, mask)[0, :, 1] == 0).all()


def test_training_never_uses_what_the_document_itself_adds():
    """The ratios a document is trained with do not change when its own label does."""
    layer, other = (
        NGramLogRatios(VOCAB, 2, table_size=40, dropout=0.0),
        NGramLogRatios(VOCAB, 2, table_size=40, dropout=0.0),
    )
    turned = LABELS.copy()
    turned[0] = turned[0][::-1]
    layer.fit(*flat(TEXTS), LABELS)
    other.fit(*flat(TEXTS), turned)
    one = padded(TEXTS[:1])
    assert torch.equal(layer.train()(*one), other.train()(*one))
    assert not torch.equal(layer.eval()(*one), other.eval()(*one))
    rest = padded(TEXTS[1:2])
    assert not torch.equal(layer.train()(*rest), other.train()(*rest))


texts = st.lists(st.lists(st.integers(1, VOCAB - 1), min_size=1, max_size=12), min_size=2, max_size=12)


@given(texts, st.integers(2, 7), st.integers(0, 5))
def test_a_fold_is_found_again_from_the_padded_words(found: list[list[int]], folds: int, more: int):
    ids, mask = padded(found, width=more)
    again = ids.masked_fill(~mask, 0).square().sum(1) % folds
    assert again.tolist() == document_folds(*flat(found), folds).tolist()


@given(texts)
def test_counts_are_those_of_a_plain_count(found: list[list[int]]):
    labels = np.eye(2)[np.arange(len(found)) % 2]
    counted = count_ngrams(*flat(found), labels, vocab_size=VOCAB, max_n=3, folds=3)
    plain: dict[int, list[int]] = {}
    for i, text in enumerate(found):
        grams = {tuple(text[t : t + k]) for k in (1, 2, 3) for t in range(len(text) - k + 1)}
        for gram in grams:
            key = 0
            for word in gram:
                key = key * VOCAB + word
            plain.setdefault(key, []).append(i)
    often = {key: homes for key, homes in plain.items() if len(homes) >= 2}
    assert counted.keys.tolist() == sorted(often)
    assert counted.total.sum(0).tolist() == [len(often[key]) for key in sorted(often)]
    assert counted.by_class.sum(0)[:, 1].tolist() == [sum(i % 2 for i in often[key]) for key in sorted(often)]


def test_the_most_frequent_are_kept():
    layer = NGramLogRatios(VOCAB, 2, table_size=2, max_n=2)
    layer.fit(*flat(TEXTS), LABELS)
    assert layer.keys.tolist() == [7, 8]  # three texts each, as 9, which is later; not the pair of two texts


def test_impossible_settings_are_refused():
    with pytest.raises(UserError, match="too many n-grams"):
        NGramLogRatios(10**7, 2, table_size=10, max_n=3)
    with pytest.raises(UserError, match="2 folds or more"):
        NGramLogRatios(VOCAB, 2, table_size=10, folds=1)
    with pytest.raises(RuntimeError, match="not counted"):
        NGramLogRatios(VOCAB, 2, table_size=10).train()(*padded(TEXTS))


@pytest.mark.parametrize(
    "config",
    [
        ngram_attention.NGramAttentionConfig(embed=7, attention=5, table_size=40),
        han.HANConfig(embed=5, hidden=4, ngrams=3, table_size=40),
    ],
)
def test_models_with_ngrams_keep_the_contract(config: ngram_attention.NGramAttentionConfig | han.HANConfig):
    torch.manual_seed(0)
    model = config.build(VOCAB, 3)
    assert isinstance(model, UsesTrainingData)
    rng = np.random.default_rng(0)
    made = [rng.integers(1, VOCAB, 9).tolist() for _ in range(6)]
    model.fit_training_data(*flat(made), np.eye(3)[[0, 1, 2, 0, 1, 2]])
    for parameter in model.parameters():  # so that all ways are open
        torch.nn.init.normal_(parameter, std=0.3)
    ids, mask = padded([made[0], made[1][:5], made[2][:2]])
    check_model(model, ids, mask, torch.arange(9).expand(3, 9) // 4)


def test_ngram_attention_starts_as_naive_bayes():
    model = ngram_attention.NGramAttentionConfig(table_size=40, ngrams=2).build(VOCAB, 2)
    model.fit_training_data(*flat(TEXTS), LABELS)
    ids, mask = padded(TEXTS)
    ratios = model.eval().ngrams(ids, mask)
    mean = ratios.sum(2).sum(1) / mask.sum(1, keepdim=True)
    logits = model(ids, mask).logits
    torch.testing.assert_close(logits - logits.mean(1, keepdim=True), 4.0 * (mean - mean.mean(1, keepdim=True)))
