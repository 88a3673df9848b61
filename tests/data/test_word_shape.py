"""Word shapes next to word ids."""

import re

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.data import documents, tokenizer
from regard.data.word_shape import find_shapes, pack_shapes, unpack_shapes

PLAIN, CAPITAL, CAPITALS, DIGIT = range(4)


def found(text: str) -> list[int]:
    return find_shapes(text, np.array([m.span() for m in re.finditer(r"\S+", text)])).tolist()


def test_four_shapes_in_any_script():
    assert found("What does AIDS mean in 1984 ?") == [CAPITAL, PLAIN, CAPITALS, PLAIN, PLAIN, DIGIT, PLAIN]
    assert found("I B2B U.S. McDonald eBay 80s") == [CAPITAL, DIGIT, CAPITALS, CAPITAL, PLAIN, DIGIT]
    assert found("Über ÉCOLE Москва США 北京 😀 ٣") == [CAPITAL, CAPITALS, CAPITAL, CAPITALS, PLAIN, PLAIN, DIGIT]


@given(st.lists(st.text(st.characters(codec="utf-8", exclude_categories=("Z", "C")), min_size=1), min_size=1))
def test_shape_does_not_depend_on_the_position(each: list[str]):
    def plainly(word: str) -> int:
        if any(c.isdecimal() for c in word):
            return DIGIT
        if sum(c.isupper() for c in word) > 1 and not any(c.islower() for c in word):
            return CAPITALS
        return CAPITAL if word[0].isupper() else PLAIN

    ends = np.cumsum([len(word) + 1 for word in each])
    spans = np.stack([ends - [len(word) + 1 for word in each], ends - 1], 1)
    assert find_shapes(" ".join(each), spans).tolist() == [plainly(word) for word in each]


def test_shapes_are_packed_and_unpacked():
    ids, how = np.array([0, 1, 7, 29_999], np.int32), np.array([0, 3, 1, 2], np.int32)
    both = pack_shapes(ids, how)
    assert both.dtype == np.int32
    for form in (both, torch.from_numpy(both.astype(np.int64))):
        assert [each.tolist() for each in unpack_shapes(form)] == [ids.tolist(), how.tolist()]


def test_documents_with_word_shapes():
    texts = ["Bush and the bush. NATO in 1949", "", "the bush"]
    core = tokenizer.train_tokenizer(texts, "words", 50)
    plain, written = documents.encode_documents(texts, core), documents.encode_documents(texts, core, word_shapes=True)
    assert unpack_shapes(written.ids)[0].tolist() == plain.ids.tolist()
    assert unpack_shapes(written.ids)[1].tolist() == [1, 0, 0, 0, 0, 2, 0, 3, 0, 0, 0]
    assert written.sentence_starts.tolist() == plain.sentence_starts.tolist()
    cut = documents.encode_documents(texts, core, word_shapes=True, max_tokens=2)
    assert cut.ids.tolist() == [*written.ids[:2], *written.ids[8:]]
