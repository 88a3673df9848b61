"""Translating: beams find what an exhaustive search finds, one beam is greedy, and batch-mates change nothing."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest
import torch

from regard.decoding import GREEDY, Beam, Interpreter, Sampling
from regard.decoding import beam_search as beams
from regard.decoding.seq2seq_decoders import Prepared, Recurrent, Remembered
from regard.errors import UserError
from regard.inspect import record
from regard.models import gpt, marian, rnn_translator, transformer

V = 41
EOS = 3
random = np.random.default_rng(0)
SOURCES = [[*random.integers(6, V, n).tolist(), EOS] for n in (5, 1, 9, 4, 7, 3, 2, 6, 8, 5, 4)]


def shaken(model, by=0.25):
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(by * torch.randn(p.shape, generator=generator))
    return model.eval()


def two_sided(**how):
    torch.manual_seed(0)
    return shaken(transformer.Transformer(transformer.TransformerConfig(V, 16, 24, 2, 2, 2, **how)))


MODELS = {
    "transformer": lambda: two_sided(),
    "pre-norm": lambda: two_sided(norm="pre"),
    "rotary": lambda: two_sided(positions="rotary"),
    "alibi": lambda: two_sided(positions="alibi"),
    "t5": lambda: two_sided(positions="t5"),
    "learned": lambda: two_sided(positions="learned:length=40"),
    "additive": lambda: two_sided(mechanism="additive"),
    "relative": lambda: two_sided(mechanism="relative", positions="none"),
    "marian": lambda: shaken(marian.Marian(marian.MarianConfig(V, 16, 24, 2, 2, 2))),
    "rnn": lambda: shaken(rnn_translator.RNNTranslatorConfig(dim=10, hidden=14).build(V)),
    "fed": lambda: shaken(rnn_translator.RNNTranslatorConfig(dim=10, hidden=14, input_feeding=True, cell="lstm", layers=2).build(V)),
}
WAYS = {"additive": Remembered, "relative": Remembered, "rnn": Recurrent, "fed": Recurrent}


@cache
def made(name):
    """With an end that is as likely as makes the lengths of translations differ most."""
    model = MODELS[name]()
    lengths = {}
    for likely in np.arange(-5.0, 5.5, 0.5):
        with torch.no_grad():
            model.bias[EOS] = likely
        found = Interpreter(model).write(SOURCES, how=Beam(1), limit=8)
        lengths[likely] = len({len(said[0].ids) for said in found if said[0].ended})
    with torch.no_grad():
        model.bias[EOS] = max(lengths, key=lengths.__getitem__)
    assert max(lengths.values()) > 0
    return model


@pytest.fixture(autouse=True)
def one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def logits_of(model, source, words):
    """By the whole model at once: of the word after [BOS] and these."""
    with torch.no_grad():
        logits = model(torch.tensor([source]), torch.tensor([[2, *words]]))[0, -1].double()
    return logits


def by_hand(model, source, limit):
    words = []
    while len(words) < limit:
        word = int(logits_of(model, source, words).argmax())
        if word == EOS:
            return words, True
        words.append(word)
    return words, int(logits_of(model, source, words).argmax()) == EOS


@pytest.mark.parametrize("name", MODELS)
def test_one_beam_is_greedy_and_is_what_the_whole_model_says(name):
    model = made(name)
    writer = Interpreter(model)
    assert type(writer._way) is WAYS.get(name, Prepared)
    found = writer.write(SOURCES, how=Beam(1), limit=12)
    drawn = writer.write(SOURCES, how=GREEDY, limit=12)
    assert any(said[0].ended for said in found)
    for source, said, other in zip(SOURCES, found, drawn, strict=True):
        words, ended = by_hand(model, source, 12)
        assert said[0].ids == words
        assert said[0].ended == ended
        assert other[0].ids == words
        assert other[0].logp == pytest.approx(said[0].logp, abs=1e-4)


def slow_beam(model, source, w, limit, alpha):
    """The same search in plain Python, the whole model called for every hypothesis."""
    kept, ends = [([], 0.0)], []
    for step in range(limit + 1):
        found = []
        for i, (words, score) in enumerate(kept):
            chances = logits_of(model, source, words).log_softmax(-1)
            found += [(score + float(chances[word]), i, word) for word in range(V)]
        found = sorted(found, reverse=True)[: 2 * w]
        for score, i, word in found[:w]:
            if word == EOS and len(ends) < w:
                ends.append((score / (step + 1) ** alpha, kept[i][0], True))
        if len(ends) >= w:
            break
        if step == limit:
            ends += [(score / max(step, 1) ** alpha, words, False) for words, score in kept][: w - len(ends)]
            break
        kept = [([*kept[i][0], word], score) for score, i, word in found if word != EOS][:w]
    return sorted(ends, key=lambda end: (not end[2], -end[0]))


@pytest.mark.parametrize("name", MODELS)
def test_beams_are_those_of_a_plain_search(name):
    model, moved = made(name), False
    for alpha, part in ((0.0, slice(0, None, 3)), (1.0, slice(1, None, 3))):
        found = Interpreter(model).write(SOURCES, how=Beam(4, alpha, best=3), limit=6)
        for source, several in zip(SOURCES[part], found[part], strict=True):
            wanted = slow_beam(model, source, 4, 6, alpha)
            assert [said.ids for said in several] == [words for _, words, _ in wanted[:3]]
            assert [said.ended for said in several] == [ended for _, _, ended in wanted[:3]]
            for said, (score, _, _) in zip(several, wanted, strict=False):
                assert said.score == pytest.approx(score, abs=1e-4)
            moved |= several[0].ids != by_hand(model, source, 6)[0]
    assert moved  # else the beams were of no use, and nothing was seen


@pytest.mark.parametrize("name", ["transformer", "alibi", "additive", "fed"])
def test_alone_is_as_in_a_batch_of_many(name):
    writer = Interpreter(made(name))
    for how in (Beam(5), Sampling(1.0, seed=3), Sampling(0.7, top_k=9, seed=3)):
        together = writer.write(SOURCES, how=how, limit=lambda n: n + 4)
        for source, said in zip(SOURCES, together, strict=True):
            alone = writer.write([source], how=how, limit=lambda n: n + 4)[0]
            assert alone[0].ids == said[0].ids
            assert alone[0].score == pytest.approx(said[0].score, abs=1e-4)


def test_finished_sentences_are_dropped_and_many_batches_come_back_in_order(monkeypatch):
    model, dropped = made("transformer"), []
    writer = Interpreter(model)
    select = Prepared.select
    counted = lambda way, rows: (dropped.append(len(rows)), select(way, rows))[1]  # noqa: E731
    monkeypatch.setattr(Prepared, "select", counted)
    whole = writer.write(SOURCES, how=Beam(3), limit=20)
    assert dropped
    told = []
    small = writer.write(SOURCES, how=Beam(3), limit=20, room=12, told=told.append)
    assert sum(told) == len(SOURCES)
    assert len(told) > 3
    assert [s[0].ids for s in small] == [s[0].ids for s in whole]


def test_the_likeliest_ways_to_go_on_are_those_of_a_sort():
    torch.manual_seed(0)
    for b, w, blocks, k in ((1, 1, 1, 2), (3, 5, 7, 10), (2, 4, 1, 8)):
        logits, scores = torch.randn(b, w, 64 * blocks), torch.randn(b, w)
        logits[..., -9:] = -torch.inf
        values, parents, words = beams.candidates(logits, scores.numpy(), k)
        whole = (logits.log_softmax(-1) + scores[..., None]).flatten(1)
        wanted = whole.sort(descending=True)
        np.testing.assert_allclose(values, wanted.values[:, :k].numpy(), rtol=1e-5)
        assert (parents * 64 * blocks + words == wanted.indices[:, :k].numpy()).all()


def test_few_words_are_no_trouble_for_many_beams():
    model = shaken(transformer.Transformer(transformer.TransformerConfig(8, 16, 24, 1, 1, 2)))
    found = Interpreter(model, never=[0, 1, 2, 4, 5]).write([[6, 7, 3]], how=Beam(12, best=6), limit=4)[0]
    assert len({tuple(said.ids) for said in found}) == 6
    assert all(word in (6, 7) for said in found for word in said.ids)
    lengths = itertools.pairwise([said.score for said in found if said.ended])
    assert all(a >= b for a, b in lengths)


def test_words_that_are_never_to_be_said_are_not():
    model = two_sided()
    first = {said[0].ids[0] for said in Interpreter(model).write(SOURCES, how=Beam(2), limit=6) if said[0].ids}
    again = Interpreter(model, never=first).write(SOURCES, how=Beam(2), limit=6)
    assert not first & {word for said in again for word in said[0].ids}
    with torch.no_grad():
        assert torch.isfinite(model.bias).all()  # the model itself is left as it was


def test_a_watched_model_says_the_same_and_is_seen():
    model = two_sided()
    writer = Interpreter(model)
    plain = writer.write(SOURCES[:2], how=Beam(3), limit=6)
    with record(model, "decoder.*.cross_attention.attend") as seen:
        watched = writer.write(SOURCES[:2], how=Beam(3), limit=6)
    assert [s[0].ids for s in plain] == [s[0].ids for s in watched]
    assert len(seen) > 2


@pytest.mark.parametrize("precision", ["float16", "int8"])
def test_rounded_weights_say_nearly_the_same(precision):
    model = two_sided()
    exact = Interpreter(model, never=[9]).write(SOURCES, how=Beam(3), limit=4)
    rounded = Interpreter(model, never=[9], precision=precision).write(SOURCES, how=Beam(3), limit=4)
    pairs = [(a[0].score, b[0].score) for a, b in zip(exact, rounded, strict=True)]
    assert max(abs(a - b) for a, b in pairs) < (0.01 if precision == "float16" else 0.3)
    assert sum(a[0].ids[:1] == b[0].ids[:1] for a, b in zip(exact, rounded, strict=True)) >= len(SOURCES) - 3
    with pytest.raises(UserError, match="leave the precision out"):
        Interpreter(MODELS["rnn"](), precision="float16")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: Beam(0), "1 beam or more"),
        (lambda: Beam(2, best=3), "from 1 to 2"),
        (lambda: Beam(alpha=-1.0), "0 or above"),
        (lambda: Interpreter(two_sided()).write([[]]), "empty"),
        (lambda: Interpreter(two_sided()).write([[3]], limit=0), "at least 1 word"),
        (lambda: Interpreter(gpt.GPT(gpt.GPTConfig(V, 8, 1, 1))), "no model of two sides"),
    ],
)
def test_what_cannot_be_meant_is_said(call, message):
    with pytest.raises(UserError, match=message):
        call()
