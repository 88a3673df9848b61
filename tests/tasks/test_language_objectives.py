"""Objectives of language models: masking rates, spans, sentence pairs and sliding windows. Batches depend on (seed,
epoch, item) only."""

from __future__ import annotations

import math
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from regard.data import counter_rng, tokenizer
from regard.data.corpus import Corpus
from regard.data.token_properties import TokenProperties
from regard.data.tokenizer import BOS, EOS, MASK, PAD, SEP, SPECIAL_TOKENS, UNK
from regard.errors import UserError
from regard.tasks.language.objective import LanguageObjective
from regard.tasks.language.objectives import OBJECTIVES, masked, next_sentence, sliding_window, span

TEXT = "The cat sat. It was fine! Was it? A dog's life, 24 unfriendly days in Straßburg.\nSo long, and thanks.\n"
few = settings(max_examples=60, deadline=None)


def word_vocabulary(size: int = 50) -> TokenProperties:
    """A vocabulary of words without a tokenizer."""
    tokenizer = SimpleNamespace(vocab_size=size, kind="words", token=lambda i: f"w{i}")
    return TokenProperties(tokenizer)  # type: ignore[arg-type]


# Random numbers -----------------------------------------------------------------------------------------------------


@few
@given(st.integers(0, 2**32 - 1), st.integers(0, 50), st.integers(1, 40), st.integers(1, 30))
def test_random_numbers_depend_on_the_item_only(seed, epoch, items, width):
    whole = counter_rng.uniform(seed, epoch, 1, np.arange(items), width)
    assert whole.shape == (items, width)
    assert (whole >= 0).all()
    assert (whole < 1).all()
    some = np.array([items - 1, 0])
    np.testing.assert_array_equal(counter_rng.uniform(seed, epoch, 1, some, width), whole[some])
    for other in (
        counter_rng.uniform(seed, epoch, 2, some, width),
        counter_rng.uniform(seed, epoch + 1, 1, some, width),
    ):
        assert (other != whole[some]).all()


def test_random_numbers_are_uniform():
    numbers = counter_rng.uniform(3, 1, 4, np.arange(1000), 1000)
    counts = np.bincount((numbers * 100).astype(int).ravel(), minlength=100)
    assert abs(counts - 10_000).max() < 5 * 100  # five deviations
    assert abs(np.corrcoef(numbers[:, :-1].ravel(), numbers[:, 1:].ravel())[0, 1]) < 0.005
    assert abs(np.corrcoef(numbers[:-1].ravel(), numbers[1:].ravel())[0, 1]) < 0.005
    assert set(counter_rng.scale_to_int(7, numbers).ravel().tolist()) == set(range(7))


# Vocabulary ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["bpe", "chars"])
def test_lengths_of_the_text_from_the_ids(kind):
    text = "Ein Satz in Straßburg,  \n\n zwei  Zeilen\nund  Ende 日本"
    kinds = {"bpe": 300, "chars": 500}
    made = tokenizer.train_tokenizer([TEXT * 9 + text], kind, kinds[kind])
    vocabulary = TokenProperties(made)
    corpus = Corpus.from_texts(text, made)
    assert vocabulary.measure_text(corpus) == (len(text), len(text.encode()), len(text.split()) + text.count("\n"))
    cut = corpus.num_tokens // 2
    both = [vocabulary.measure_text(part) for part in corpus.split(cut)]
    assert [sum(column) for column in zip(*both, strict=True)][:2] == [len(text), len(text.encode())]


def test_word_perplexity_of_parts_of_words_counts_what_spaces_count():
    text = TEXT * 3
    bpe, spaces = tokenizer.train_tokenizer([text], "bpe", 300), tokenizer.train_tokenizer([text], "spaces", 300)
    assert (
        TokenProperties(bpe).measure_text(Corpus.from_texts(text, bpe))[2] == Corpus.from_texts(text, spaces).num_tokens
    )


@pytest.mark.parametrize("kind", ["bpe", "chars"])
def test_where_words_begin(kind):
    made = tokenizer.train_tokenizer([TEXT * 9], kind, 300)
    text = "The cat's unfriendly life,  24 days."
    encoding = made.encode(text)
    begins = TokenProperties(made).find_word_starts(np.array([encoding.ids]))[0]
    starts = {a for (a, _), first in zip(encoding.offsets, begins, strict=True) if first}
    inside = [text.index("nfriendly"), text.index("ife"), text.index("4 days")]
    assert not starts & set(inside)
    assert all({place, place - 1} & starts for place in (text.index("unfriendly"), text.index("life"), text.index(",")))


@pytest.mark.parametrize("kind", tokenizer.KINDS)
def test_where_sentences_end(kind):
    made = tokenizer.train_tokenizer(["The cat sat . It was fine ! So long , and thanks\n" * 9], kind, 300)
    vocabulary = TokenProperties(made)
    ids = np.array(made.encode("The cat sat . It was fine ! So long").ids)
    ends = [made.token(int(i)).strip("Ġ ") for i in ids[vocabulary.ends_sentence[ids]]]
    assert ends == [".", "!"]
    assert vocabulary.ends_sentence[EOS]
    assert not vocabulary.is_word[[PAD, BOS, EOS, MASK, SEP]].any()
    assert vocabulary.is_word[UNK]


# Masked -------------------------------------------------------------------------------------------------------------


@few
@given(
    st.integers(0, 2**31), st.integers(0, 9), st.integers(2, 64), st.integers(1, 20), st.floats(0.01, 0.9),
)  # fmt: skip
def test_every_row_has_the_masking_rate(seed, epoch, n, rows, rate):
    ids = np.random.default_rng(seed).integers(0, 50, (rows, n))
    vocabulary = word_vocabulary()
    chosen = masked.choose_tokens(ids, vocabulary, masked.MaskedConfig(rate=rate), seed, epoch, np.arange(rows))
    real = vocabulary.is_word[ids].sum(1)
    wanted = np.where(real, np.maximum(np.rint(rate * real), 1), 0)
    np.testing.assert_array_equal(chosen.sum(1), wanted)
    assert not chosen[~vocabulary.is_word[ids]].any()


def test_eight_in_ten_are_masked_one_is_replaced_one_is_kept():
    ids = np.random.default_rng(0).integers(len(SPECIAL_TOKENS), 1000, (400, 200))
    chosen = np.ones_like(ids, bool)
    chosen[:, ::2] = False
    changed = masked.corrupt_tokens(ids, chosen, 1000, 1, 2, np.arange(400))
    assert (changed[~chosen] == ids[~chosen]).all()
    after, before = changed[chosen], ids[chosen]
    share = [(after == MASK).mean(), ((after != MASK) & (after != before)).mean(), (after == before).mean()]
    np.testing.assert_allclose(share, [0.8, 0.1, 0.1], atol=0.01)
    assert after[after != MASK].min() >= len(SPECIAL_TOKENS)
    assert after.max() < 1000


@few
@given(st.integers(0, 2**31), st.integers(1, 8), st.floats(0.05, 0.5))
def test_whole_words_are_masked_together(seed, rows, rate):
    """With characters as tokens: a word is masked as a whole, and the rate is exact up to half a word."""
    made = tokenizer.train_tokenizer(["abc .xyz"], "chars", 300)
    vocabulary = TokenProperties(made)
    random = np.random.default_rng(seed)
    ids = random.integers(len(SPECIAL_TOKENS), made.vocab_size, (rows, 80))
    config = masked.MaskedConfig(rate=rate, whole_words=True)
    chosen = masked.choose_tokens(ids, vocabulary, config, seed, 3, np.arange(rows))
    begins = vocabulary.find_word_starts(ids)
    number = np.cumsum(begins, 1)
    longest = 0
    for row in range(rows):
        for word in range(1, number[row].max() + 1):
            inside = chosen[row, number[row] == word]
            assert inside.all() or not inside.any()
            longest = max(longest, len(inside))
    assert (chosen.sum(1) > 0).all()
    assert (abs(chosen.sum(1) - np.rint(rate * 80)) <= longest / 2 + 1).all() or longest > 2 * rate * 80


def build_objective(name: str, vocabulary: TokenProperties, block_size: int = 16, **options):
    cls = OBJECTIVES[name]
    sizes = {"block_size": block_size, "stride": block_size // 2, "batch_size": 4, "seed": 5}
    return cls(cls.config_class(**options), vocabulary, **sizes)


def test_validation_masks_the_same_tokens_each_time_and_changes_no_other():
    made = build_objective("masked", word_vocabulary(), 40)
    corpus = Corpus.from_ids([np.random.default_rng(0).integers(6, 50, 900).tolist()])
    seen = []

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.zeros(50))

        def forward(self, ids, *, segments=None, logits_at=None):
            seen.append(ids.clone())
            return self.weight.expand(len(logits_at), 50), torch.zeros(len(ids), 2)

    for _ in range(2):
        metrics = made.evaluate(Model(), corpus)
    assert metrics["loss"] == pytest.approx(math.log(50))
    first, again = torch.cat(seen[: len(seen) // 2]), torch.cat(seen[len(seen) // 2 :])
    assert torch.equal(first, again)
    text = torch.from_numpy(corpus.read(np.arange(len(first)) * 40, 40))
    hidden = first == MASK
    assert torch.equal(first[~hidden], text[~hidden])
    assert hidden.float().mean().item() == pytest.approx(0.15, abs=0.001)


# Pairs --------------------------------------------------------------------------------------------------------------


def numbered(tokens: int = 2000, document: int = 250) -> Corpus:
    """Tokens whose id is their position + 10."""
    return Corpus.from_ids([list(range(10 + s, 10 + s + document - 1)) for s in range(0, tokens, document)])


class SeventhEndsSentence:
    """A vocabulary in which every seventh token ends a sentence."""

    size = 30_000
    is_word = np.ones(size, bool)
    ends_sentence = (np.arange(size) % 7 == 0) | (np.arange(size) == EOS)


@few
@given(st.integers(0, 2**31), st.integers(11, 60), st.integers(0, 30))
def test_a_pair_is_two_parts_of_the_text(seed, block, epoch):
    corpus = numbered()
    n = next_sentence.text_length(block)
    items = np.arange(12)
    starts = np.random.default_rng(seed).integers(0, corpus.num_tokens - n, 12)
    pairs = next_sentence.build_pairs(
        corpus, corpus.document_starts(), starts, items, block, SeventhEndsSentence(), seed, epoch
    )  # type: ignore[arg-type]
    assert pairs.ids.shape == pairs.segments.shape == (12, block)
    for row, start in enumerate(starts):
        ids, segments = pairs.ids[row], pairs.segments[row]
        cut = int((segments == 0).sum()) - 2
        assert (ids[0], ids[cut + 1], ids[-1]) == (BOS, SEP, SEP)
        assert n // 4 <= cut <= n - n // 4
        text = corpus.read([start], n)[0]
        np.testing.assert_array_equal(ids[1 : cut + 1], text[:cut])
        second = ids[cut + 2 : -1]
        if pairs.is_next[row]:
            np.testing.assert_array_equal(second, text[cut:])
        else:
            known = np.flatnonzero(second != EOS)[0]  # a word says where it stands
            where = int(second[known]) - 10 - known
            np.testing.assert_array_equal(second, corpus.read([where], len(second))[0])
            assert abs(where - start) > block


def test_half_of_the_pairs_follow_and_all_are_split_at_sentences():
    corpus = numbered(20_000, 100)
    starts = np.random.default_rng(0).integers(0, corpus.num_tokens - 60, 2000)
    pairs = next_sentence.build_pairs(
        corpus, corpus.document_starts(), starts, np.arange(2000), 60, SeventhEndsSentence(), 1, 2
    )  # type: ignore[arg-type]
    assert pairs.is_next.mean() == pytest.approx(0.5, abs=0.04)
    cut = (pairs.segments == 0).sum(1) - 2
    last, first = pairs.ids[np.arange(2000), cut], pairs.ids[np.arange(2000), cut + 2]
    assert SeventhEndsSentence.ends_sentence[last].mean() > 0.99
    assert SeventhEndsSentence.ends_sentence[first[pairs.is_next == 0] - 1].mean() > 0.9  # or a document begins
    border = np.isin(starts + cut, corpus.document_starts())
    assert not border.any()  # no pair reaches over the end of a document


def test_pairs_need_text_elsewhere():
    corpus = numbered(200)
    with pytest.raises(UserError, match="8 blocks"):
        next_sentence.build_pairs(
            corpus, corpus.document_starts(), np.array([0]), np.array([0]), 40, SeventhEndsSentence(), 0, 0
        )  # type: ignore[arg-type]


# Spans --------------------------------------------------------------------------------------------------------------


@few
@given(st.integers(0, 2**31), st.integers(2, 70), st.integers(1, 9))
def test_a_span_can_be_put_back(seed, n, rows):
    text = np.random.default_rng(seed).integers(6, 99, (rows, n))
    ids, inside = span.move_span(text, seed, 4, np.arange(rows))
    assert ids.shape == (rows, n + 3)
    for row in range(rows):
        first, second = np.flatnonzero(ids[row] == MASK)
        taken = ids[row, second + 1 : -1]
        assert ids[row, -1] == EOS
        assert 1 <= len(taken) <= max(n // 2, 1)
        back = np.concatenate([ids[row, :first], taken, ids[row, first + 1 : second]])
        np.testing.assert_array_equal(back, text[row])
        np.testing.assert_array_equal(np.flatnonzero(inside[row]), np.arange(second + 1, n + 3))


def test_spans_are_at_all_positions_and_a_quarter_long():
    text = np.arange(6, 6 + 40)[None].repeat(3000, 0)
    ids, inside = span.move_span(text, 0, 0, np.arange(3000))
    assert (inside.sum(1) - 1).mean() == pytest.approx(10.5, abs=0.4)
    taken = np.bincount(ids[inside], minlength=46)[6:]
    assert taken.min() > 50


def test_the_loss_is_on_the_span_or_on_all():
    corpus = Corpus.from_ids([list(range(10, 400))])
    starts, items = np.array([0, 50]), np.array([0, 1])
    some = build_objective("span", word_vocabulary(500)).batch(corpus, starts, items, 0)
    every = build_objective("span", word_vocabulary(500), loss="all").batch(corpus, starts, items, 0)
    assert torch.equal(some.ids, every.ids)
    assert every.targets.numel() == every.ids.numel()
    assert torch.equal(every.targets[some.logits_at], some.targets)
    assert (some.targets == EOS).sum() == 2


# Windows ------------------------------------------------------------------------------------------------------------


@few
@given(st.integers(1, 400), st.integers(1, 60), st.data())
def test_a_sliding_window_scores_each_token_once_with_enough_context(tokens, block, data):
    stride = data.draw(st.integers(1, block))
    lead = data.draw(st.sampled_from([block - stride, (block - stride) // 2]))
    starts, first, stop = sliding_window.plan_windows(tokens, block, stride, lead)
    scored = np.concatenate([np.arange(a, b) for a, b in zip(first, stop, strict=True)])
    np.testing.assert_array_equal(scored, np.arange(tokens))
    length = min(block, tokens)
    assert (starts >= 0).all()
    assert (starts + length <= tokens).all()
    assert (first >= starts).all()
    assert (stop <= starts + length).all()
    assert (first[1:] - starts[1:] >= lead).all()  # each has so many before it


@few
@given(st.integers(20, 3000), st.integers(4, 19), st.integers(0, 20), st.sampled_from(list(OBJECTIVES)))
def test_windows_of_an_epoch_are_in_the_text_and_do_not_overlap(tokens, block, epoch, name):
    corpus = Corpus.from_ids([list(range(10, 10 + tokens - 1))])
    made = build_objective(name, word_vocabulary(5000), block)
    task = LanguageObjective(corpus, corpus, made, block_size=block, batch_tokens=3 * block, seed=3)
    plan = task.plan(epoch)
    items = np.concatenate(plan)
    assert sorted(items.tolist()) == list(range(len(items)))
    assert len(items) >= (tokens - made.length) // made.step
    assert all(len(part) == 3 for part in plan[:-1])
    starts = task.offset(epoch) + items * made.step
    assert starts.min() >= 0
    assert starts.max() + made.length <= tokens
    assert [p.tolist() for p in task.plan(epoch)] == [p.tolist() for p in plan]
    if len(items) > 20:
        assert items.tolist() != sorted(items.tolist())


def test_windows_start_elsewhere_each_epoch():
    corpus = Corpus.from_ids([list(range(10, 2000))])
    task = LanguageObjective(
        corpus, corpus, build_objective("causal", word_vocabulary(5000)), block_size=16, batch_tokens=64, seed=3
    )
    assert len({task.offset(epoch) for epoch in range(30)}) > 5


@pytest.mark.parametrize(
    ("name", "options"),
    [("causal", {}), ("masked", {}), ("masked", {"whole_words": True}), ("masked", {"next_sentence": True}),
     ("blank", {}), ("span", {})],
)  # fmt: skip
def test_a_batch_depends_on_its_items_only(name, options):
    """Split in two, as by two processes, it is the same."""
    corpus = Corpus.from_ids([np.random.default_rng(0).integers(6, 50, 3000).tolist()])
    task = LanguageObjective(
        corpus, corpus, build_objective(name, word_vocabulary(), **options), block_size=16, batch_tokens=160, seed=3
    )
    items = task.plan(2)[1]
    whole, again = task.batch(items, 2), task.batch(items, 2)
    assert torch.equal(whole.ids, again.ids)
    assert torch.equal(whole.targets, again.targets)
    parts = [task.batch(items[i::2], 2) for i in range(2)]
    for i, part in enumerate(parts):
        assert torch.equal(part.ids, whole.ids[i::2])
        if part.segments is not None:
            assert torch.equal(part.segments, whole.segments[i::2])
            assert torch.equal(part.is_next, whole.is_next[i::2])
    for key, count in whole.counts.items():
        assert sum(part.counts[key] for part in parts) == count
    if name != "causal":  # which hides and changes nothing
        other = task.batch(items, 3)
        assert not torch.equal(other.ids, whole.ids)


def test_a_text_shorter_than_a_window_is_an_error():
    corpus = Corpus.from_ids([[7] * 10])
    with pytest.raises(UserError, match=r"training part has 11 tokens.*--block-size"):
        LanguageObjective(
            corpus, corpus, build_objective("causal", word_vocabulary()), block_size=16, batch_tokens=64, seed=3
        )


@pytest.mark.parametrize("bad", [{"rate": 0.0}, {"rate": 1.5}])
def test_an_invalid_rate_is_an_error(bad):
    with pytest.raises(UserError, match="rate"):
        masked.MaskedConfig(**bad)


# Metrics ------------------------------------------------------------------------------------------------------------


class Bigram(nn.Module):
    """A table of logits of the next token, so that the loss can be computed by hand."""

    def __init__(self, size: int):
        super().__init__()
        self.table = nn.Parameter(torch.randn(size, size, generator=torch.Generator().manual_seed(0)))

    def forward(self, ids, logits_at=None):
        logits = self.table[ids]
        return logits if logits_at is None else logits.flatten(0, 1)[logits_at]


@pytest.mark.parametrize("stride", [1, 5, 16])
def test_bits_and_perplexity_are_exact(stride):
    made = tokenizer.train_tokenizer([TEXT], "chars", 300)
    vocabulary, corpus = TokenProperties(made), Corpus.from_texts(TEXT, made)
    model = Bigram(made.vocab_size)
    cls = OBJECTIVES["causal"]
    objective = cls(cls.config_class(), vocabulary, block_size=16, stride=stride, batch_size=3, seed=0)
    metrics = objective.evaluate(model, corpus)
    ids = [EOS, *corpus.read([0], corpus.num_tokens)[0].tolist()]
    log_probs = torch.log_softmax(model.table.double(), -1)
    nats = -sum(log_probs[a, b].item() for a, b in pairwise(ids))
    assert metrics["loss"] == pytest.approx(nats / corpus.num_tokens, rel=1e-5)
    assert metrics["perplexity"] == pytest.approx(math.exp(nats / corpus.num_tokens), rel=1e-4)
    assert metrics["bits_per_character"] == pytest.approx(nats / math.log(2) / len(TEXT), rel=1e-5)
    assert metrics["bits_per_byte"] == pytest.approx(nats / math.log(2) / len(TEXT.encode()), rel=1e-5)
    lines = len(TEXT.split()) + TEXT.count("\n")
    assert metrics["word_perplexity"] == pytest.approx(math.exp(nats / lines), rel=1e-4)
