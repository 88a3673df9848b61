"""Captioning: the training objective, caption metrics, and image augmentation."""

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
from regard.tasks.caption.objective import GRAY, CaptionObjective, attention_in_box, measure_loss
from regard.tasks.image_augmentation import augment_images
from regard.tasks.image_settings import AugmentSettings

RNG = np.random.default_rng(0)
IMAGES = RNG.integers(0, 256, (7, 16, 16, 3)).astype(np.uint8)
CAPTIONS = [[[6 + i, 7, 3], [8, 3]][: 1 + i % 2] for i in range(7)]


def build_objective(**options) -> CaptionObjective:
    options = {"batch_size": 3, "captions_per_image": 2, "seed": 0, **options}
    return CaptionObjective(IMAGES, CAPTIONS, IMAGES[:3], CAPTIONS[:3], **options)


def build_model():
    torch.manual_seed(0)
    return RNNCaptionerConfig(channels=(8,), dim=8, hidden=8, dropout=0.0).build(20)


# BLEU, by hand


def ngrams(words: list[str], n: int) -> Counter:
    return Counter(tuple(words[i : i + n]) for i in range(len(words) - n + 1))


def bleu_by_hand(captions: list[str], references: list[list[str]], order: int) -> float:
    correct, total, c, r = [0] * order, [0] * order, 0, 0
    for caption, refs in zip(captions, references, strict=True):
        words = caption.split()
        c += len(words)
        r += min((abs(len(x.split()) - len(words)), len(x.split())) for x in refs)[1]
        for n in range(1, order + 1):
            max_counts: Counter = Counter()
            for ref in refs:
                max_counts |= ngrams(ref.split(), n)
            counts = ngrams(words, n)
            correct[n - 1] += sum((counts & max_counts).values())
            total[n - 1] += sum(counts.values())
    if not all(correct):
        return 0.0
    mean = sum(math.log(a / b) for a, b in zip(correct, total, strict=True)) / order
    return 100 * math.exp(mean) * (1.0 if c >= r else math.exp(1 - r / c))


def test_bleu_with_several_references_equals_its_definition():
    rng = np.random.default_rng(3)
    words = ["a", "man", "dog", "red", "ball", "runs", "on", "the", "grass", "in"]
    references = [[" ".join(rng.choice(words, rng.integers(4, 9))) for _ in range(k)] for k in (5, 3, 1, 4)]
    captions = [refs[-1] if i != 1 else refs[0] + " the grass" for i, refs in enumerate(references)]
    captions[3] = " ".join(captions[3].split()[:4])
    metrics = compute_caption_metrics(captions, references)
    for order in range(1, 5):
        assert metrics[f"bleu{order}"] == pytest.approx(bleu_by_hand(captions, references, order), abs=1e-6)
    assert metrics["bleu"] == metrics["bleu4"]
    assert metrics["exact"] == sum(c in refs for c, refs in zip(captions, references, strict=True)) / 4


def test_bleu_of_a_published_example():
    """Papineni et al. 2002, example 2: the modified unigram precision is 2/7."""
    metrics = compute_caption_metrics(
        ["the the the the the the the"], [["the cat is on the mat", "there is a cat on the mat"]]
    )
    assert metrics["bleu1"] == pytest.approx(100 * 2 / 7)
    assert metrics["bleu2"] == 0.0


def test_bleu_needs_references_for_each_caption():
    with pytest.raises(UserError, match="references of 2 images"):
        compute_caption_metrics(["a"], [["a"], ["b"]])
    with pytest.raises(UserError, match="at least one reference"):
        compute_caption_metrics(["a"], [[]])


def test_cider_is_computed_if_its_library_is_installed(monkeypatch):
    """A fake library records its input: one caption per image and all of its references."""
    inputs = {}

    class Cider:
        def compute_score(self, references, captions):
            inputs.update(references=references, captions=captions)
            return 0.25, [0.25, 0.25]

    module = ModuleType("pycocoevalcap.cider.cider")
    module.Cider = Cider
    for name in ("pycocoevalcap", "pycocoevalcap.cider"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "pycocoevalcap.cider.cider", module)
    metrics = compute_caption_metrics(["a dog", "a cat"], [["a dog", "one dog"], ["the cat"]])
    assert metrics["cider"] == 25
    assert inputs == {"references": {0: ["a dog", "one dog"], 1: ["the cat"]}, "captions": {0: ["a dog"], 1: ["a cat"]}}
    assert "cider" not in compute_caption_metrics(["a dog"], [["a dog"]])


def test_cider_of_references_is_higher_than_of_other_captions():
    pytest.importorskip("pycocoevalcap", reason="pycocoevalcap is not installed")
    refs = [["a man rides a horse", "a man on a horse"], ["two dogs run in the grass"], ["a red ball", "the red ball"]]
    assert (
        compute_caption_metrics([r[0] for r in refs], refs)["cider"]
        > compute_caption_metrics(["a man", "the dogs", "a green ball"], refs)["cider"]
        > 0
    )


# The objective


def test_each_image_is_used_once_per_epoch_with_the_same_number_of_captions():
    objective = build_objective()
    plan = objective.plan(0)
    assert sorted(np.concatenate(plan).tolist()) == list(range(7))
    for indices in plan:
        batch = objective.batch(indices, 0)
        assert len(batch.inputs) == 2 * len(indices)
        assert (batch.images.numpy() == IMAGES[indices]).all()
        for row, i in enumerate(indices.tolist()):
            rows = [batch.inputs[2 * row + k, 1:].tolist() for k in range(2)]
            captions = [[*r, 3][: len(r)] for r in CAPTIONS[i]]
            assert all(any(row[: len(c) - 1] == c[:-1] for c in captions) for row in rows)
        repeated = objective.batch(indices, 0)
        assert (repeated.inputs == batch.inputs).all()


def test_word_loss_equals_measure_loss():
    objective, net = build_objective(label_smoothing=0.0, captions_per_image=1), build_model()
    batch = objective.batch(np.array([0, 2]), 0)  # one caption each
    loss = float(objective.loss(net, batch)["words"].sum.detach()) / batch.counts["words"]
    assert measure_loss(net, IMAGES[[0, 2]], [CAPTIONS[0], CAPTIONS[2]])["loss"] == pytest.approx(loss, rel=1e-5)


def test_doubly_stochastic_attention_is_a_loss_term():
    objective, net = build_objective(doubly_stochastic=0.5), build_model()
    batch = objective.batch(np.array([1, 3]), 0)
    terms = objective.loss(net, batch)
    assert terms["doubly_stochastic"].weight == 0.5
    assert set(terms) == set(batch.counts)
    lengths, cells = batch.mask.sum(1), 64
    minimum = float(((1 - lengths / cells) ** 2 * cells).sum())  # of uniform attention
    assert float(terms["doubly_stochastic"].sum.detach()) >= minimum - 1e-3
    terms["doubly_stochastic"].sum.backward()
    assert net.decoder.attention.mechanism.q.weight.grad.abs().sum() > 0


def test_images_with_side_words_are_not_flipped():
    objective = build_objective(augment=AugmentSettings(flip=True), side_words=[8], captions_per_image=1)
    num_flipped = 0
    for epoch in range(6):
        batch = objective.batch(np.arange(7), epoch)
        for i, image in enumerate(batch.images.numpy()):
            if not np.allclose(image, IMAGES[i], atol=1e-2):
                np.testing.assert_allclose(image, IMAGES[i][:, ::-1], atol=1e-2)
                assert batch.inputs[i, 1] != 8
                num_flipped += 1
    assert num_flipped > 5


def test_hidden_images_have_no_influence():
    objective, net = build_objective(blank=True), build_model().eval()
    first, other = (objective.batch(np.array([i]), 0) for i in (0, 2))
    assert (first.images == other.images).all()
    metrics = measure_loss(net, IMAGES, CAPTIONS, blank=True)
    assert metrics == measure_loss(net, IMAGES[::-1].copy(), CAPTIONS, blank=True)
    assert metrics == pytest.approx(measure_loss(net, np.full_like(IMAGES, GRAY), CAPTIONS))  # one image for all
    assert metrics != measure_loss(net, IMAGES, CAPTIONS)


# Attention of a word


def test_partially_covered_cells_count_partially():
    attention = np.zeros((4, 8))
    attention[1, 2] = 0.75
    attention[3, 7] = 0.25
    assert attention_in_box(attention, (0, 0, 1, 1)) == pytest.approx(1)
    assert attention_in_box(attention, (0.25, 0.25, 0.375, 0.5)) == pytest.approx(0.75)  # exactly that cell
    assert attention_in_box(attention, (0.25, 0.25, 0.3125, 0.5)) == pytest.approx(0.375)  # its left half
    assert attention_in_box(attention, (0.5, 0.0, 0.75, 1.0)) == 0
    assert attention_in_box(attention, (0.875, 0.875, 1, 1)) == pytest.approx(0.125)


# Augmentation


def test_no_augmentation_by_default():
    assert (augment_images(IMAGES, AugmentSettings(), [0]).numpy() == IMAGES).all()


def test_flipped_images_are_mirrored():
    images = augment_images(IMAGES, AugmentSettings(flip=True), [1]).numpy()
    same = [np.abs(a - b).max() < 0.01 for a, b in zip(images, IMAGES, strict=True)]
    flipped = [np.abs(a - b[:, ::-1]).max() < 0.01 for a, b in zip(images, IMAGES, strict=True)]
    assert all(s != t for s, t in zip(same, flipped, strict=True))
    assert any(same)
    assert any(flipped)


@pytest.mark.parametrize("augment", [AugmentSettings(zoom=0.6), AugmentSettings(light=0.4), AugmentSettings(hide=0.3)])
def test_same_seed_gives_the_same_augmentation(augment):
    first, repeated, other = (augment_images(IMAGES, augment, seed) for seed in ([3, 1], [3, 1], [3, 2]))
    assert torch.equal(first, repeated)
    assert not torch.equal(first, other)
    assert first.shape == (7, 16, 16, 3)
    assert first.min() >= 0
    assert first.max() <= 255
    assert not torch.equal(first, torch.from_numpy(IMAGES).float())


def test_zoomed_image_is_a_crop():
    ramp = np.tile(np.arange(0, 256, 16, dtype=np.uint8)[None, None, :, None], (5, 16, 1, 3))
    images = augment_images(ramp, AugmentSettings(zoom=0.5), [0])
    assert (images[:, 8].diff(dim=1) >= -1e-3).all()  # still increasing, but more slowly
    assert (images[:, 8, -1, 0] - images[:, 8, 0, 0] < 240 - 10).any()


@pytest.mark.parametrize("options", [{"zoom": 0.0}, {"zoom": 1.5}, {"light": 1.0}, {"hide": -0.1}])
def test_augmentation_options_are_checked(options):
    with pytest.raises(UserError, match=r"augment\..* must be"):
        AugmentSettings(**options).check()


def test_dropped_words_are_inputs_but_not_targets():
    plain, objective = build_objective(), build_objective(word_dropout=0.5)
    indices = np.arange(7)
    first, batch = plain.batch(indices, 0), objective.batch(indices, 0)
    assert torch.equal(first.targets, batch.targets)
    assert (batch.inputs[:, 0] == 2).all()
    changed = batch.inputs != first.inputs
    assert changed.any()
    assert (batch.inputs[changed] == 1).all()
    assert torch.equal(
        build_objective(word_dropout=1.0).batch(indices, 0).inputs[:, 1:], torch.ones_like(first.inputs[:, 1:])
    )
