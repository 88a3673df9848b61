"""Captions: what is learnt, how captions are measured, and how pictures are changed in training."""

from __future__ import annotations

import math
import sys
from collections import Counter
from types import ModuleType

import numpy as np
import pytest
import torch

from regard.errors import UserError
from regard.models.rnn_captioner import RNNCaptionerConfig
from regard.tasks.caption.metrics import compute_caption_metrics
from regard.tasks.caption.objective import GRAY, CaptionObjective, measure_loss, attention_in_box
from regard.tasks.image_augmentation import Augment

RANDOM = np.random.default_rng(0)
PICTURES = RANDOM.integers(0, 256, (7, 16, 16, 3)).astype(np.uint8)
CAPTIONS = [[[6 + i, 7, 3], [8, 3]][: 1 + i % 2] for i in range(7)]


def task(**more) -> CaptionObjective:
    return CaptionObjective(PICTURES, CAPTIONS, PICTURES[:3], CAPTIONS[:3], **{"batch": 3, "several": 2, "seed": 0, **more})


def model():
    torch.manual_seed(0)
    return RNNCaptionerConfig(channels=(8,), dim=8, hidden=8, dropout=0.0).build(20)


# BLEU, by hand


def ngrams(words: list[str], n: int) -> Counter:
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def by_hand(found: list[str], references: list[list[str]], order: int) -> float:
    right, total, c, r = [0] * order, [0] * order, 0, 0
    for said, refs in zip(found, references, strict=True):
        words = said.split()
        c += len(words)
        r += min((abs(len(x.split()) - len(words)), len(x.split())) for x in refs)[1]
        for n in range(1, order + 1):
            most: Counter = Counter()
            for ref in refs:
                most |= ngrams(ref.split(), n)
            counted = ngrams(words, n)
            right[n - 1] += sum((counted & most).values())
            total[n - 1] += sum(counted.values())
    if not all(right):
        return 0.0
    mean = sum(math.log(a / b) for a, b in zip(right, total, strict=True)) / order
    return 100 * math.exp(mean) * (1.0 if c >= r else math.exp(1 - r / c))


def test_bleu_of_several_references_is_its_definition():
    random = np.random.default_rng(3)
    words = ["a", "man", "dog", "red", "ball", "runs", "on", "the", "grass", "in"]
    references = [[" ".join(random.choice(words, random.integers(4, 9))) for _ in range(k)] for k in (5, 3, 1, 4)]
    found = [refs[-1] if i != 1 else refs[0] + " the grass" for i, refs in enumerate(references)]
    found[3] = " ".join(found[3].split()[:4])
    measured = compute_caption_metrics(found, references)
    for order in range(1, 5):
        assert measured[f"bleu{order}"] == pytest.approx(by_hand(found, references, order), abs=1e-6)
    assert measured["bleu"] == measured["bleu4"]
    assert measured["exact"] == sum(f in r for f, r in zip(found, references, strict=True)) / 4


def test_bleu_of_a_known_example():
    """Papineni et al. 2002, example 2: the modified unigram precision is 2/7."""
    measured = compute_caption_metrics(["the the the the the the the"], [["the cat is on the mat", "there is a cat on the mat"]])
    assert measured["bleu1"] == pytest.approx(100 * 2 / 7)
    assert measured["bleu2"] == 0.0


def test_bleu_wants_as_many_captions_as_pictures():
    with pytest.raises(UserError, match="cannot be compared"):
        compute_caption_metrics(["a"], [["a"], ["b"]])
    with pytest.raises(UserError, match="one reference"):
        compute_caption_metrics(["a"], [[]])


def test_cider_is_that_of_its_authors_where_it_is_installed(monkeypatch):
    """Here a stand-in that keeps what it was given: one caption a picture against all of its references."""
    kept = {}

    class Cider:
        def compute_score(self, wanted, said):
            kept.update(wanted=wanted, said=said)
            return 0.25, [0.25, 0.25]

    module = ModuleType("pycocoevalcap.cider.cider")
    module.Cider = Cider
    for name in ("pycocoevalcap", "pycocoevalcap.cider"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "pycocoevalcap.cider.cider", module)
    measured = compute_caption_metrics(["a dog", "a cat"], [["a dog", "one dog"], ["the cat"]])
    assert measured["cider"] == 25
    assert kept == {"wanted": {0: ["a dog", "one dog"], 1: ["the cat"]}, "said": {0: ["a dog"], 1: ["a cat"]}}
    assert "cider" not in compute_caption_metrics(["a dog"], [["a dog"]])


def test_cider_of_true_captions_is_more_than_of_others():
    pytest.importorskip("pycocoevalcap", reason="pycocoevalcap is not installed")
    refs = [["a man rides a horse", "a man on a horse"], ["two dogs run in the grass"], ["a red ball", "the red ball"]]
    assert (
        compute_caption_metrics([r[0] for r in refs], refs)["cider"] > compute_caption_metrics(["a man", "the dogs", "a green ball"], refs)["cider"] > 0
    )


# The task


def test_each_picture_brings_as_many_captions_and_all_come():
    job = task()
    plan = job.plan(0)
    assert sorted(np.concatenate(plan).tolist()) == list(range(7))
    for indices in plan:
        batch = job.batch(indices, 0)
        assert len(batch.target) == 2 * len(indices)
        assert (batch.pictures.numpy() == PICTURES[indices]).all()
        for row, i in enumerate(indices.tolist()):
            said = [batch.target[2 * row + k, 1:].tolist() for k in range(2)]
            firsts = [[*r, 3][: len(r)] for r in CAPTIONS[i]]
            assert all(any(s[: len(f) - 1] == f[:-1] for f in firsts) for s in said)
        again = job.batch(indices, 0)
        assert (again.target == batch.target).all()


def test_the_loss_of_words_is_what_measure_says():
    job, net = task(label_smoothing=0.0, several=1), model()
    batch = job.batch(np.array([0, 2]), 0)  # one caption each
    summed = float(job.loss(net, batch)["words"].sum.detach()) / batch.counts["words"]
    assert measure_loss(net, PICTURES[[0, 2]], [CAPTIONS[0], CAPTIONS[2]])["loss"] == pytest.approx(summed, rel=1e-5)


def test_doubly_stochastic_attention_is_a_term():
    job, net = task(doubly=0.5), model()
    batch = job.batch(np.array([1, 3]), 0)
    terms = job.loss(net, batch)
    assert terms["doubly"].weight == 0.5
    assert set(terms) == set(batch.counts)
    lengths, cells = batch.real.sum(1), 64
    least = float(((1 - lengths / cells) ** 2 * cells).sum())  # were attention even
    assert float(terms["doubly"].sum.detach()) >= least - 1e-3
    terms["doubly"].sum.backward()
    assert net.decoder.attention.mechanism.q.weight.grad.abs().sum() > 0


def test_what_says_left_or_right_is_not_mirrored():
    job, turned = task(augment=Augment(flip=True), sides=[8], several=1), 0
    for epoch in range(6):
        batch = job.batch(np.arange(7), epoch)
        for i, seen in enumerate(batch.pictures.numpy()):
            if not np.allclose(seen, PICTURES[i], atol=1e-2):
                np.testing.assert_allclose(seen, PICTURES[i][:, ::-1], atol=1e-2)
                assert batch.target[i, 1] != 8
                turned += 1
    assert turned > 5


def test_blanked_pictures_say_nothing():
    job, net = task(blank=True), model().eval()
    first, other = (job.batch(np.array([i]), 0) for i in (0, 2))
    assert (first.pictures == other.pictures).all()
    shown = measure_loss(net, PICTURES, CAPTIONS, blank=True)
    assert shown == measure_loss(net, PICTURES[::-1].copy(), CAPTIONS, blank=True)
    assert shown == pytest.approx(measure_loss(net, np.full_like(PICTURES, GRAY), CAPTIONS))  # one stands for all
    assert shown != measure_loss(net, PICTURES, CAPTIONS)


# Where a word was looked for


def test_a_share_counts_cells_by_how_much_of_them_is_covered():
    map_ = np.zeros((4, 8))
    map_[1, 2] = 0.75
    map_[3, 7] = 0.25
    assert attention_in_box(map_, (0, 0, 1, 1)) == pytest.approx(1)
    assert attention_in_box(map_, (0.25, 0.25, 0.375, 0.5)) == pytest.approx(0.75)  # that cell alone
    assert attention_in_box(map_, (0.25, 0.25, 0.3125, 0.5)) == pytest.approx(0.375)  # its left half
    assert attention_in_box(map_, (0.5, 0.0, 0.75, 1.0)) == 0
    assert attention_in_box(map_, (0.875, 0.875, 1, 1)) == pytest.approx(0.125)


# Pictures changed


def test_nothing_asked_for_is_nothing_changed():
    assert (Augment()(PICTURES, [0]).numpy() == PICTURES).all()


def test_mirrored_pictures_are_mirrored():
    found = Augment(flip=True)(PICTURES, [1]).numpy()
    same = [np.abs(a - b).max() < 0.01 for a, b in zip(found, PICTURES, strict=True)]
    turned = [np.abs(a - b[:, ::-1]).max() < 0.01 for a, b in zip(found, PICTURES, strict=True)]
    assert all(s != t for s, t in zip(same, turned, strict=True))
    assert any(same)
    assert any(turned)


@pytest.mark.parametrize("how", [Augment(zoom=0.6), Augment(light=0.4), Augment(hide=0.3)])
def test_the_same_numbers_change_the_same(how):
    first, again, other = how(PICTURES, [3, 1]), how(PICTURES, [3, 1]), how(PICTURES, [3, 2])
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert first.shape == (7, 16, 16, 3)
    assert first.min() >= 0
    assert first.max() <= 255
    assert not torch.equal(first, torch.from_numpy(PICTURES).float())


def test_a_zoomed_picture_is_a_part_of_it():
    ramp = np.tile(np.arange(0, 256, 16, dtype=np.uint8)[None, None, :, None], (5, 16, 1, 3))
    found = Augment(zoom=0.5)(ramp, [0])
    assert (found[:, 8].diff(dim=1) >= -1e-3).all()  # still rising, more slowly
    assert (found[:, 8, -1, 0] - found[:, 8, 0, 0] < 240 - 10).any()


@pytest.mark.parametrize("how", [{"zoom": 0.0}, {"zoom": 1.5}, {"light": 1.0}, {"hide": -0.1}])
def test_shares_are_shares(how):
    with pytest.raises(UserError, match="share"):
        Augment(**how).check()


def test_hidden_words_are_hidden_from_the_decoder_and_still_learnt():
    plain, job = task(), task(hide=0.5)
    indices = np.arange(7)
    first, seen = plain.batch(indices, 0), job.batch(indices, 0)
    assert torch.equal(first.words, seen.words)
    assert (seen.target[:, 0] == 2).all()
    changed = seen.target != first.target
    assert changed.any()
    assert (seen.target[changed] == 1).all()
    assert torch.equal(task(hide=1.0).batch(indices, 0).target[:, 1:], torch.ones_like(first.target[:, 1:]))
