from __future__ import annotations

import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from regard.data.sentence_split import split_sentences

SHARED = Path(__file__).resolve().parents[2].parent / "shared" / "data"


@pytest.mark.parametrize(
    "sentences",
    [
        ["Dr. Smith went to Washington, D.C. on Jan. 5.", "He met J. R. R. Tolkien!", "They left."],
        ['"Really?" he said.', '"Yes."', "Nothing more."],
        ["It cost $3.50... not much.", "Then...", "Silence.", "I mean... I left."],
        ["See e.g. the book, vol. 2, p. 5.", "I gave it 7.5/10.", "The end came at 5 p.m.", "We left."],
        ["He works for Acme Inc. in Ohio.", "Acme Inc.", "The rest is known."],
        ["What?!?", "No way (really.)", "Mr. T. was there.", "Plan B.", "The rest etc. and so on."],
        ["Visit www.site.com.", "Or write to a@b.co.uk now.", "Version 2.0.1 is out."],
        ["Wow!", "what a film.", "loved it!!!", "So much."],
        ["all in lower case .", "another one !", "and a third"],
        ["1. First point.", "2. Second point.", "It was 1999.", "Then 2000."],
        ["我爱你。", "你呢？", "很好！！", "真的"],
        ["هل هذا جيد؟", "نعم.", "شكرا۔", "كتاب"],
        ["यह अच्छा है।", "बहुत अच्छा।"],
        ["The answer is no.", "We left.", "No.", "I do not.", "A plain no.", "A man came.", "He is no. 5.", "So what."],
        [
            "Is it good?",
            "No.",
            "Not at all.",
            "See nos. 3 and 4 in vol. II, ch. xiv, sec. 2, fig. b of vol. I.",
            "Yes.",
        ],
        ["It took one sec.", "We left with Ed.", "He is 6 ft.", "The rest is no small feat.", "We saw Mt. Everest."],
        ["In Roe v. Wade it was so.", "Ed. John Smith, dir. Ridley Scott.", "I ate a fig.", "The end."],
        ["<b>Bold.</b>", "Next <i>one.</i>", 'Last <span class="x">of all!</span>', "<em>Here.</em>", "Done"],
        ["<i>Help!</i> is a film.", '"<i>Really?</i>" he said.', "<b>1.</b> First point.", "<b>Dr. Smith</b> left."],
        ["It is great!👍", "So good!", "Love it.❤️👨‍👩‍👧👍🏽", "And more!🎉", "so it was"],
    ],
)
def test_sentences_are_found(sentences):
    gap = "" if sentences[0].startswith("我") else " "
    text = gap.join(sentences)
    assert [text[a:b] for a, b in split_sentences(text)] == sentences


def test_breaks():
    for text, wanted in (
        ("One<br /><br />Two.<br>three", ["One<br /><br />", "Two.<br>", "three"]),
        ("<br />Top. Next.", ["<br />Top.", "Next."]),
        ("A wrapped\nline goes on,\nHere too.\nA title\n\nlower paragraph", None),
        ("It ended.It began there. Amazon.com and U.S.A stay.", None),
        (
            "Works of art<br /><br />that last, <BR>say I.<br />So what",
            ["Works of art<br /><br />that last, <BR>say I.<br />", "So what"],
        ),
        ("A title</p><p>lower text", ["A title</p><p>", "lower text"]),
        (
            "I cannot beat it.So be warned.But try. See www.Site.com now",
            ["I cannot beat it.", "So be warned.", "But try.", "See www.Site.com now"],
        ),
        ("This is it.... I left. I mean... I stay", ["This is it....", "I left.", "I mean... I stay"]),
        ("It ended.<b>It began</b> there.", ["It ended.", "<b>It began</b> there."]),
        ("<div><div>\n<ul>1. One.", ["<div><div>\n<ul>1. One."]),
    ):
        found = [text[a:b] for a, b in split_sentences(text)]
        if wanted is None:
            wanted = {
                "A": ["A wrapped\nline goes on,\nHere too.", "A title", "lower paragraph"],
                "I": ["It ended.", "It began there.", "Amazon.com and U.S.A stay."],
            }[text[0]]
        assert found == wanted


def test_quoted_question_in_scripts_without_case():
    for text, wanted in (
        ("你说「好吗？」他问。我走了。", ["你说「好吗？」他问。", "我走了。"]),
        ("“真的！”他说。「你好？」「再见。」他走了。", ["“真的！”他说。", "「你好？」", "「再见。」", "他走了。"]),
    ):
        assert [text[a:b] for a, b in split_sentences(text)] == wanted


PIECES = st.sampled_from(
    [*"a 1\n.!?…\"'”)。؟-\u2028\x1c👍？」", "The", "Dr", "no", "  ", "...", "<br />", "<br", "</p>", "<b>", "</i>"],
)


@given(st.one_of(st.text(max_size=40), st.lists(PIECES, max_size=25).map("".join)))
@example("<br /><br />")
@example(" ")
def test_spans_cover_all_but_whitespace_in_order(text):
    spans = split_sentences(text)
    assert bool(spans) == bool(text)
    last = 0
    for start, end in spans:
        assert last <= start < end <= len(text)
        assert not text[last:start].strip()
        last = end
    assert not text[last:].strip()
    if text.strip():
        assert all(text[a:b] == text[a:b].strip() for a, b in spans)


@pytest.mark.parametrize(
    "unit",
    [
        *(".", ".)", "<br ", "\n", " ", "1. ", '."', "。", "<br />", "- ", '. "', "a", "<br /> \n", "<div>"),
        *('."</b>', ".<b>", "<b. ", ". <b>", ".</b .", "</b>", ".👍", "。</i>", "？」", "x 1. ", "no. "),
    ],
)
def test_time_is_linear(unit):
    start = time.process_time()
    split_sentences(unit * 200_000 + "x")
    assert time.process_time() - start < 5


@pytest.mark.data
@pytest.mark.skipif(not SHARED.is_dir(), reason="../shared/data is absent")
def test_imdb_has_sentences_of_a_usual_size():
    from regard.data.read_table import read_table

    texts = read_table(SHARED / "imdb" / "train.tsv.gz", text="3", label="0").texts[::10]
    counts = [len(split_sentences(text)) for text in texts]
    words = sum(len(text.split()) for text in texts)
    assert 15 < words / sum(counts) < 22
