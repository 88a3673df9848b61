from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.data.tokenizer import KINDS, SPECIAL_TOKENS, UNK, Tokenizer, train_tokenizer
from regard.errors import UserError

TEXTS = [
    "The film's ending wasn't good... it was 7.5 out of 10!!!",
    "A well-made story<br /><br />from the 80s, don't miss it.",
    "我爱你。コーヒーを飲む สวัสดี",
    "كتاب جيد 👍🏽 👨‍👩‍👧 naïve",
]
TRAINED = {kind: train_tokenizer(TEXTS, kind, 400) for kind in KINDS}


def words_of(tokenizer: Tokenizer, text: str) -> list[str]:
    """The text of each word, put together from its tokens' offsets."""
    encoding, spans = tokenizer.encode(text), {}
    for (start, end), word in zip(encoding.offsets, encoding.word_ids, strict=True):
        low, high = spans.get(word, (start, end))
        spans[word] = (min(low, start), max(high, end))
    return [text[a:b] for a, b in spans.values()]


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_come_first_and_are_never_encoded(kind):
    tokenizer = TRAINED[kind]
    assert [tokenizer.token(i) for i in range(6)] == list(SPECIAL_TOKENS)
    ids = tokenizer.encode("[MASK] [PAD]").ids
    assert not {0, 2, 3, 4, 5} & set(ids)
    assert tokenizer.kind == kind


def test_word_boundaries():
    assert words_of(TRAINED["words"], TEXTS[0]) == (
        ["The", "film", "'s", "ending", "wasn't", "good", "...", "it", "was", "7.5", "out", "of", "10", "!!!"]
    )
    assert words_of(TRAINED["words"], TEXTS[1])[:7] == ["A", "well", "-", "made", "story", "<br />", "<br />"]
    assert words_of(TRAINED["words"], TEXTS[2])[:6] == ["我", "爱", "你", "。", "コ", "ー"]
    assert words_of(TRAINED["words"], "👍🏽 👨‍👩‍👧") == ["👍🏽", "👨‍👩‍👧"]


@pytest.mark.parametrize("text", TEXTS)
def test_bpe_and_chars_share_the_words_of_the_word_tokenizer(text):
    small = train_tokenizer(TEXTS, "bpe", 262)  # bytes only, so that each word is many tokens
    wanted = words_of(TRAINED["words"], text)
    assert words_of(small, text) == wanted
    assert len(small.encode(text).ids) > len(wanted)
    assert [w.lstrip() for w in words_of(TRAINED["chars"], text)] == wanted


def test_lowercase_is_an_option_of_words():
    assert TRAINED["words"].encode("FILM").ids == TRAINED["words"].encode("film").ids != [UNK]
    cased = train_tokenizer(TEXTS, "words", 400, lowercase=False)
    assert cased.encode("FILM").ids == [UNK]


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60))
def test_bpe_decodes_any_text(text):
    tokenizer = TRAINED["bpe"]
    encoding = tokenizer.encode(text)
    assert tokenizer.decode(encoding.ids) == text
    assert encoding.word_ids == sorted(encoding.word_ids)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60), st.sampled_from(KINDS))
def test_offsets_are_in_the_text_and_increase(text, kind):
    encoding = TRAINED[kind].encode(text)
    assert len(encoding.ids) == len(encoding.offsets) == len(encoding.word_ids)
    assert all(0 <= start <= end <= len(text) for start, end in encoding.offsets)
    starts = [start for start, _ in encoding.offsets]
    assert starts == sorted(starts)
    if kind == "chars":
        assert encoding.offsets == [(i, i + 1) for i in range(len(text))]


def test_leading_spaces_are_not_part_of_a_token():
    text = "good  film here"
    spans = [text[a:b] for a, b in TRAINED["bpe"].encode(text).offsets]
    assert not any(span.startswith(" ") for span in spans)
    assert "".join(spans) == "goodfilmhere"


@pytest.mark.parametrize("kind", KINDS)
def test_batch_equals_one_by_one_and_survives_saving(kind, tmp_path):
    tokenizer = TRAINED[kind]
    assert tokenizer.encode_batch(TEXTS) == [tokenizer.encode(text) for text in TEXTS]
    tokenizer.save(tmp_path)
    again = Tokenizer.load(tmp_path / "tokenizer.json")
    assert again.encode_batch([*TEXTS, "[MASK]"]) == tokenizer.encode_batch([*TEXTS, "[MASK]"])
    assert (again.kind, again.vocab_size) == (kind, tokenizer.vocab_size)
    assert [p.name for p in tmp_path.iterdir()] == ["tokenizer.json"]


@pytest.mark.parametrize("kind", KINDS)
def test_training_is_deterministic_across_processes(kind):
    code = (
        "import hashlib; from regard.data.tokenizer import train_tokenizer;"
        "from regard.data.synthetic.reviews import generate_reviews;"
        f"t = train_tokenizer([r.text for r in generate_reviews(300, 1)], {kind!r}, 500);"
        "print(hashlib.sha256(t.core.to_str().encode()).hexdigest())"
    )
    runs = {
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    }
    assert len(runs) == 1


def test_vocabulary_keeps_the_most_frequent_words():
    texts = ["a a a b b c"] * 2
    assert train_tokenizer(texts, "words", 8).vocab_size == 8
    assert train_tokenizer(texts, "words", 8).encode("a b c").ids == [6, 7, UNK]
    assert train_tokenizer(texts, "chars", 7).encode("a ").ids == [UNK, 6]
    assert train_tokenizer(["x", *texts], "words", 100).encode("x").ids != [UNK]
    large = ["once", *["common word"] * 100_000]
    assert train_tokenizer(large, "words", 100).encode("once").ids == [UNK]


def test_bad_settings_and_files(tmp_path):
    for call, message in (
        (lambda: train_tokenizer(TEXTS, "wrds"), "did you mean 'words'"),
        (lambda: train_tokenizer(TEXTS, "bpe", 100), "must be at least 262"),
        (lambda: train_tokenizer(["", ""], "words"), "no text"),
        (lambda: Tokenizer.load(tmp_path / "none.json"), "no such tokenizer file"),
    ):
        with pytest.raises(UserError, match=message):
            call()
    TRAINED["words"].save(tmp_path)
    whole = (tmp_path / "tokenizer.json").read_bytes()
    for content in (whole[: len(whole) // 2], b"", b"{}", b"\xff\xfe", b"[1, 2]"):
        (tmp_path / "tokenizer.json").write_bytes(content)
        with pytest.raises(UserError):
            Tokenizer.load(tmp_path)
    (tmp_path / "tokenizer.json").write_bytes(whole.replace(b"[BOS]", b"[CLS]"))
    with pytest.raises(UserError, match="was not trained by regard"):
        Tokenizer.load(tmp_path)


def test_a_fork_does_not_hang():
    code = """
import os, signal, sys
from regard.data.tokenizer import train_tokenizer
tokenizer = train_tokenizer(["a b c"] * 50, "words")
tokenizer.encode_batch(["a b"] * 50)
pid = os.fork()
if pid == 0:
    signal.alarm(20)  # a child that hangs ends itself
    tokenizer.encode_batch(["a b"] * 50)
    os._exit(7)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (7, "")
