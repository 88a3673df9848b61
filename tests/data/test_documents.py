from __future__ import annotations

import numpy as np
import pytest

from regard.data.documents import encode_documents
from regard.data.sentence_split import split_sentences
from regard.data.tokenizer import KINDS, UNK, train_tokenizer
from regard.errors import UserError

TEXTS = [
    "One sentence here. Then another one! And, at last, a third?",
    "word",
    "   ",
    "A film.<br /><br />It ended. 我爱你。你呢？",
    "Many. " * 300 + "End of it.",
    "!!! ... ???",
]


@pytest.mark.parametrize("kind", KINDS)
def test_tokens_and_sentences_are_those_of_the_text(kind):
    tokenizer = train_tokenizer(TEXTS, kind, 400)
    documents = encode_documents(TEXTS, tokenizer)
    assert len(documents) == len(TEXTS)
    assert (documents.ids.dtype, documents.starts.dtype) == (np.int32, np.int64)
    for i, text in enumerate(TEXTS):
        ids, bounds = documents.document(i)
        encoding = tokenizer.encode(text)
        assert ids.tolist() == (encoding.ids or [UNK])
        assert bounds[0] == 0
        assert bounds[-1] == len(ids) == documents.lengths[i]
        assert (np.diff(bounds) > 0).all()
        if not text.strip() or kind == "spaces":  # where no space parts two sentences, one token holds both
            continue
        spans = split_sentences(text)
        assert len(bounds) - 1 == len(spans) == documents.sentence_counts[i]
        for (start, end), first, last in zip(spans, bounds, bounds[1:], strict=False):
            covered = [encoding.offsets[t] for t in range(first, last) if text[slice(*encoding.offsets[t])].strip()]
            assert covered[0][0] == start
            assert covered[-1][1] == end
    assert documents.sentence_lengths.sum() == len(documents.ids)
    assert documents.document(-1)[0].tolist() == documents.document(len(TEXTS) - 1)[0].tolist()
    with pytest.raises(IndexError):
        documents.document(len(TEXTS))


def test_max_tokens_truncates_the_end():
    tokenizer = train_tokenizer(TEXTS, "words", 400)
    whole, short = encode_documents(TEXTS, tokenizer), encode_documents(TEXTS, tokenizer, max_tokens=7)
    assert short.lengths.max() == 7
    assert short.num_truncated == int((whole.lengths > 7).sum())
    assert short.ids.base is None
    for i in range(len(TEXTS)):
        ids, bounds = short.document(i)
        assert ids.tolist() == whole.document(i)[0][:7].tolist()
        assert bounds[-1] == len(ids)
    with pytest.raises(UserError, match="max_tokens"):
        encode_documents(TEXTS, tokenizer, max_tokens=0)


def test_chunks_change_nothing(monkeypatch):
    tokenizer = train_tokenizer(TEXTS, "bpe", 300)
    whole = encode_documents(TEXTS, tokenizer)
    monkeypatch.setattr("regard.data.documents.CHUNK_CHARACTERS", 10)
    small = encode_documents(TEXTS, tokenizer)
    for name in ("ids", "starts", "sentence_starts", "sentence_offsets"):
        assert (getattr(whole, name) == getattr(small, name)).all()


def test_empty_and_very_long_documents():
    tokenizer = train_tokenizer(TEXTS, "words", 400)
    assert len(encode_documents([], tokenizer)) == 0
    documents = encode_documents(["word " * 50_000, "A word. " * 25_000], tokenizer)
    assert documents.lengths.tolist() == [50_000, 75_000]
    assert documents.sentence_counts.tolist() == [1, 25_000]
