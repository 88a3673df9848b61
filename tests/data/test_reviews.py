from __future__ import annotations

import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

from regard.data.sentence_split import split_sentences
from regard.data.synthetic.reviews import ADJECTIVES, DOMAINS, NOUNS, VERBS, generate_reviews
from regard.errors import UserError

REVIEWS = generate_reviews(5000, 0)


def deciding(review) -> tuple[int, int]:
    return split_sentences(review.text)[review.sentence]


def accuracy(texts: list[str], reviews=REVIEWS) -> float:
    """TF-IDF on 1-2-grams and logistic regression: 4,000 to train, of which 800 choose C, and 1,000 to test."""
    labels = [review.label for review in reviews]

    def fit(size: int, c: float):
        words = TfidfVectorizer(ngram_range=(1, 2), token_pattern=r"\w+", sublinear_tf=True)
        return make_pipeline(words, LogisticRegression(C=c, max_iter=2000)).fit(texts[:size], labels[:size])

    best = max((1, 10, 100), key=lambda c: fit(3200, c).score(texts[3200:4000], labels[3200:4000]))
    return float(fit(4000, best).score(texts[4000:], labels[4000:]))


def test_shape_of_the_corpus():
    assert generate_reviews(50, 3) == generate_reviews(50, 3)
    assert generate_reviews(50, 3) != generate_reviews(50, 4)
    assert sum(r.label == "positive" for r in REVIEWS) == 2500
    assert {r.domain for r in REVIEWS} == set(DOMAINS)
    assert len({r.text for r in REVIEWS}) > 4950
    counts = [len(split_sentences(r.text)) for r in REVIEWS]
    assert (min(counts), max(counts)) == (3, 10)


def test_evidence_is_in_the_deciding_sentence_and_agrees_with_the_label():
    good, bad = (set(" ".join(lists).replace("|", " ").split()) - {"a", "of"} for lists in zip(*(
        (positive, negative) for negative, positive in (ADJECTIVES, VERBS, NOUNS)
    ), strict=True))  # fmt: skip
    denied = 0
    for review in REVIEWS:
        ((start, end),) = review.evidence
        low, high = deciding(review)
        assert low <= start < end <= high
        words = review.text[start:end].split()
        negated = any(phrase in review.text[start:end] for phrase in ("not at", "far", "anything", "hardly"))
        denied += negated
        positive = bool(good & set(words))
        assert positive != bool(bad & set(words))
        assert (positive != negated) == (review.label == "positive")
    assert 0.04 < denied / len(REVIEWS) < 0.15


def test_a_bag_of_words_is_misled_and_the_sentence_decides():
    whole = accuracy([r.text for r in REVIEWS])
    sentence = accuracy([r.text[slice(*deciding(r))] for r in REVIEWS])
    rest = accuracy([r.text[: deciding(r)[0]] + r.text[deciding(r)[1] :] for r in REVIEWS])
    assert 0.65 < whole < 0.9
    assert sentence > 0.97
    assert 0.44 < rest < 0.56


def test_options():
    assert {r.domain for r in generate_reviews(20, 0, domains=["hotel"])} == {"hotel"}
    assert all(len(split_sentences(r.text)) == 1 for r in generate_reviews(20, 0, sentences=(1, 1)))
    with pytest.raises(UserError, match="did you mean 'hotel'"):
        generate_reviews(1, 0, domains=["hotl"])
    with pytest.raises(UserError, match="cannot generate"):
        generate_reviews(1, 0, sentences=(5, 2))
