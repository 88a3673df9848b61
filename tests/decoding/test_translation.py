"""Translation: beam search equals a reference search, one beam is greedy, and the batch changes nothing."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import pytest
import torch

from regard.decoding import GREEDY, BatchTranslator, BeamSearch, Sampling
from regard.decoding import beam_search as beams
from regard.decoding.seq2seq_decoders import CachedSeq2SeqDecoder, OptimizedSeq2SeqDecoder, RecurrentSeq2SeqDecoder
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
    return shaken(transformer.Transformer(V, transformer.TransformerConfig(16, 24, 2, 2, 2, **how)))


MODELS = {
    "transformer": lambda: two_sided(),
    "pre-norm": lambda: two_sided(norm="pre"),
    "rotary": lambda: two_sided(positions="rotary"),
    "alibi": lambda: two_sided(positions="alibi"),
    "t5": lambda: two_sided(positions="t5"),
    "learned": lambda: two_sided(positions="learned:length=40"),
    "additive": lambda: two_sided(mechanism="additive"),
    "relative": lambda: two_sided(mechanism="relative", positions="none"),
    "marian": lambda: shaken(marian.Marian(V, marian.MarianConfig(16, 24, 2, 2, 2))),
    "rnn": lambda: shaken(rnn_translator.RNNTranslatorConfig(dim=10, hidden=14).build(V)),
    "fed": lambda: shaken(
        rnn_translator.RNNTranslatorConfig(dim=10, hidden=14, input_feeding=True, cell="lstm", layers=2).build(V)
    ),
}
WAYS = {
    "additive": CachedSeq2SeqDecoder,
    "relative": CachedSeq2SeqDecoder,
    "rnn": RecurrentSeq2SeqDecoder,
    "fed": RecurrentSeq2SeqDecoder,
}


@cache
def made(name):
    """With an end that is as likely as makes the lengths of translations differ most."""
    model = MODELS[name]()
    lengths = {}
    for likely in np.arange(-5.0, 5.5, 0.5):
        with torch.no_grad():
            model.bias[EOS] = likely
        found = BatchTranslator(model).translate(SOURCES, strategy=BeamSearch(1), max_length=8)
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
def test_one_beam_is_greedy_and_equals_the_full_model(name):
    model = made(name)
    writer = BatchTranslator(model)
    assert type(writer._decoder) is WAYS.get(name, OptimizedSeq2SeqDecoder)
    found = writer.translate(SOURCES, strategy=BeamSearch(1), max_length=12)
    drawn = writer.translate(SOURCES, strategy=GREEDY, max_length=12)
    assert any(said[0].ended for said in found)
    for source, said, other in zip(SOURCES, found, drawn, strict=True):
        words, ended = by_hand(model, source, 12)
        assert said[0].ids == words
        assert said[0].ended == ended
        assert other[0].ids == words
        assert other[0].log_prob == pytest.approx(said[0].log_prob, abs=1e-4)


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
def test_beams_equal_a_reference_search(name):
    model, moved = made(name), False
    for alpha, part in ((0.0, slice(0, None, 3)), (1.0, slice(1, None, 3))):
        found = BatchTranslator(model).translate(SOURCES, strategy=BeamSearch(4, alpha, num_hypotheses=3), max_length=6)
        for source, several in zip(SOURCES[part], found[part], strict=True):
            wanted = slow_beam(model, source, 4, 6, alpha)
            assert [said.ids for said in several] == [words for _, words, _ in wanted[:3]]
            assert [said.ended for said in several] == [ended for _, _, ended in wanted[:3]]
            for said, (score, _, _) in zip(several, wanted, strict=False):
                assert said.score == pytest.approx(score, abs=1e-4)
            moved |= several[0].ids != by_hand(model, source, 6)[0]
    assert moved  # else the beams were of no use, and nothing was seen


@pytest.mark.parametrize("name", ["transformer", "alibi", "additive", "fed"])
def test_the_batch_does_not_change_a_translation(name):
    writer = BatchTranslator(made(name))
    for how in (BeamSearch(5), Sampling(1.0, seed=3), Sampling(0.7, top_k=9, seed=3)):
        together = writer.translate(SOURCES, strategy=how, max_length=lambda n: n + 4)
        for source, said in zip(SOURCES, together, strict=True):
            alone = writer.translate([source], strategy=how, max_length=lambda n: n + 4)[0]
            assert alone[0].ids == said[0].ids
            assert alone[0].score == pytest.approx(said[0].score, abs=1e-4)


def test_finished_sentences_are_removed_and_results_keep_their_order(monkeypatch):
    model, dropped = made("transformer"), []
    writer = BatchTranslator(model)
    select = OptimizedSeq2SeqDecoder.select
    counted = lambda way, rows: (dropped.append(len(rows)), select(way, rows))[1]  # noqa: E731
    monkeypatch.setattr(OptimizedSeq2SeqDecoder, "select", counted)
    whole = writer.translate(SOURCES, strategy=BeamSearch(3), max_length=20)
    assert dropped
    told = []
    small = writer.translate(SOURCES, strategy=BeamSearch(3), max_length=20, batch_tokens=12, on_progress=told.append)
    assert sum(told) == len(SOURCES)
    assert len(told) > 3
    assert [s[0].ids for s in small] == [s[0].ids for s in whole]


def test_top_candidates_equal_a_sort():
    torch.manual_seed(0)
    for b, w, blocks, k in ((1, 1, 1, 2), (3, 5, 7, 10), (2, 4, 1, 8)):
        logits, scores = torch.randn(b, w, 64 * blocks), torch.randn(b, w)
        logits[..., -9:] = -torch.inf
        values, parents, words = beams.top_candidates(logits, scores.numpy(), k)
        whole = (logits.log_softmax(-1) + scores[..., None]).flatten(1)
        wanted = whole.sort(descending=True)
        np.testing.assert_allclose(values, wanted.values[:, :k].numpy(), rtol=1e-5)
        assert (parents * 64 * blocks + words == wanted.indices[:, :k].numpy()).all()


def test_more_beams_than_tokens():
    model = shaken(transformer.Transformer(8, transformer.TransformerConfig(16, 24, 1, 1, 2)))
    found = BatchTranslator(model, suppress=[0, 1, 2, 4, 5]).translate(
        [[6, 7, 3]], strategy=BeamSearch(12, num_hypotheses=6), max_length=4
    )[0]
    assert len({tuple(said.ids) for said in found}) == 6
    assert all(word in (6, 7) for said in found for word in said.ids)
    lengths = itertools.pairwise([said.score for said in found if said.ended])
    assert all(a >= b for a, b in lengths)


def test_suppressed_tokens_are_never_translated():
    model = two_sided()
    first = {
        said[0].ids[0]
        for said in BatchTranslator(model).translate(SOURCES, strategy=BeamSearch(2), max_length=6)
        if said[0].ids
    }
    again = BatchTranslator(model, suppress=first).translate(SOURCES, strategy=BeamSearch(2), max_length=6)
    assert not first & {word for said in again for word in said[0].ids}
    with torch.no_grad():
        assert torch.isfinite(model.bias).all()  # the model itself is left as it was


def test_record_does_not_change_the_translation():
    model = two_sided()
    writer = BatchTranslator(model)
    plain = writer.translate(SOURCES[:2], strategy=BeamSearch(3), max_length=6)
    with record(model, "decoder.*.cross_attention.attend") as seen:
        watched = writer.translate(SOURCES[:2], strategy=BeamSearch(3), max_length=6)
    assert [s[0].ids for s in plain] == [s[0].ids for s in watched]
    assert len(seen.calls_of("decoder.0.cross_attention.attend")) > 2


@pytest.mark.parametrize("precision", ["float16", "int8"])
def test_quantized_weights_are_close(precision):
    model = two_sided()
    exact = BatchTranslator(model, suppress=[9]).translate(SOURCES, strategy=BeamSearch(3), max_length=4)
    rounded = BatchTranslator(model, suppress=[9], precision=precision).translate(
        SOURCES, strategy=BeamSearch(3), max_length=4
    )
    pairs = [(a[0].score, b[0].score) for a, b in zip(exact, rounded, strict=True)]
    assert max(abs(a - b) for a, b in pairs) < (0.01 if precision == "float16" else 0.3)
    assert sum(a[0].ids[:1] == b[0].ids[:1] for a, b in zip(exact, rounded, strict=True)) >= len(SOURCES) - 3
    with pytest.raises(UserError, match="Use float32"):
        BatchTranslator(MODELS["rnn"](), precision="float16")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: BeamSearch(0), "at least 1"),
        (lambda: BeamSearch(2, num_hypotheses=3), "between 1 and the beam size 2"),
        (lambda: BeamSearch(alpha=-1.0), "at least 0"),
        (lambda: BatchTranslator(two_sided()).translate([[]]), "empty"),
        (lambda: BatchTranslator(two_sided()).translate([[3]], max_length=0), "at least 1"),
        (lambda: BatchTranslator(gpt.GPT(V, gpt.GPTConfig(8, 1, 1))), "not an encoder-decoder"),
    ],
)
def test_invalid_translation_arguments(call, message):
    with pytest.raises(UserError, match=message):
        call()
