"""The reader points within the sentence, and padding is nothing to it."""

from __future__ import annotations

import numpy as np
import torch

from regard.data import tokenizer
from regard.data.qa_passages import build_passage
from regard.inspect import record
from regard.models import span_reader
from regard.tasks.recall.extractive_qa import collate, predict_ends, predict_spans

PATTERN = ("Where was", "born?")
TEXTS = ["Ada was born in London .", "He is a painter born in Beirut, Lebanon , and lives in Rome ."]
WORDS = tokenizer.train_tokenizer(TEXTS, "words", 60)
PAGES = [
    build_passage(PATTERN, name, text, WORDS, "Beirut")
    for name, text in zip(["Ada", "Nabil Kanso"], TEXTS, strict=True)
]


def model() -> span_reader.SpanReader:
    torch.manual_seed(0)
    return span_reader.SpanReaderConfig(dim=24, layers=2, heads=2, hidden=32).build(WORDS.vocab_size).eval()


def test_chances_sum_to_one_over_the_sentence():
    batch = collate(PAGES)
    weights = predict_ends(model(), batch)
    assert weights.shape == (2, 2, max(map(len, PAGES)))
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 2))
    assert (weights.transpose(1, 2)[~batch.allowed] == 0).all()
    assert (weights[:, :, 0] > 0).all()  # [BOS] says that the sentence does not say


def test_padding_is_invisible():
    made = model()
    alone, both = predict_ends(made, collate(PAGES[:1])), predict_ends(made, collate(PAGES))
    torch.testing.assert_close(both[0, :, : len(PAGES[0])], alone[0], atol=1e-5, rtol=1e-4)


def test_what_is_pointed_at_is_a_span_of_the_sentence():
    for found, made in zip(predict_spans(model(), PAGES), PAGES, strict=True):
        assert made.start <= found.first <= found.last < len(made)
        assert found.text in "".join(made.words)
        assert len(found.weights) == len(made.words)
        assert 0 < found.probability < 1


def test_no_other_span_is_likelier():
    made = model()
    weights = predict_ends(made, collate(PAGES)).detach().numpy()
    for row, found in enumerate(predict_spans(made, PAGES, max_words=3)):
        start, end = weights[row]
        spans = [
            (start[s] * end[e], s, e)
            for s in range(PAGES[row].start, len(PAGES[row]))
            for e in range(s, min(s + 3, len(PAGES[row])))
        ]
        assert max(spans)[1:] == (found.first, found.last)
        np.testing.assert_allclose(max(spans)[0], found.probability, rtol=1e-5)


def test_pointing_is_recorded_as_attention():
    made = model()
    with record(made) as seen, torch.no_grad():
        predict_ends(made, collate(PAGES[:1]))
    assert seen["span_pool.attend"].shape == (1, 1, 2, len(PAGES[0]))
