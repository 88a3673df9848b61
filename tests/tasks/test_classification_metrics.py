"""The numbers are those of scikit-learn, and the losses those of the formulas."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn import metrics as sk

from regard.tasks.classify.metrics import compute_metrics, most_frequent_accuracy, per_class_metrics
from regard.tasks.classify.objective import classification_loss, to_probabilities

RANDOM = np.random.default_rng(0)


def test_one_class():
    truth = RANDOM.integers(0, 4, 200)
    found = RANDOM.dirichlet(np.ones(5), 200)  # the fifth class never occurs
    guess = found.argmax(1)
    said = compute_metrics(found, truth)
    assert said["accuracy"] == pytest.approx(sk.accuracy_score(truth, guess))
    assert said["macro_f1"] == pytest.approx(sk.f1_score(truth, guess, average="macro", labels=range(4)))
    assert said["loss"] == pytest.approx(sk.log_loss(truth, found, labels=range(5)))
    assert most_frequent_accuracy(truth) == pytest.approx(np.bincount(truth).max() / 200)


def test_many_labels():
    truth = (RANDOM.random((150, 3)) < [0.5, 0.1, 0.9]).astype(np.float32)
    found = RANDOM.random((150, 3))
    guess = found >= 0.5
    said = compute_metrics(found, truth)
    assert said["subset_accuracy"] == pytest.approx(sk.accuracy_score(truth, guess))
    assert said["micro_f1"] == pytest.approx(sk.f1_score(truth, guess, average="micro"))
    assert said["macro_f1"] == pytest.approx(sk.f1_score(truth, guess, average="macro"))
    each = [sk.log_loss(truth[:, c], found[:, c]) for c in range(3)]
    assert said["loss"] == pytest.approx(np.mean(each))


@pytest.mark.parametrize("many", [False, True])
def test_each_class(many: bool):
    names = ["x", "y", "z"]
    found = RANDOM.random((90, 3))
    truth = (RANDOM.random((90, 3)) < 0.4).astype(np.float32) if many else RANDOM.integers(0, 3, 90)
    guess = found >= 0.5 if many else found.argmax(1)
    p, r, f, support = sk.precision_recall_fscore_support(truth, guess, zero_division=0)
    for i, row in enumerate(per_class_metrics(found, truth, names).values()):
        assert (row["support"], row["precision"], row["recall"], row["f1"]) == pytest.approx(
            (support[i], p[i], r[i], f[i])
        )


def test_weighted_losses():
    logits = torch.randn(6, 3, requires_grad=True)
    labels, weights = torch.tensor([0, 1, 2, 2, 1, 0]), torch.tensor([1.0, 4.0, 0.5])
    p = to_probabilities(logits)
    assert torch.allclose(p.sum(1), torch.ones(6))
    wanted = -(weights[labels] * p[torch.arange(6), labels].log()).sum()
    assert torch.allclose(classification_loss(logits, labels, weights), wanted)
    members = (torch.rand(6, 3) < 0.5).float()
    q = to_probabilities(logits, multi_label=True)
    wanted = -(weights * members * q.log() + (1 - members) * (1 - q).log()).sum() / 3
    assert torch.allclose(classification_loss(logits, members, weights), wanted, atol=1e-5)


def test_smoothed_losses_want_a_little_of_every_class():
    logits, labels = torch.randn(6, 4), torch.tensor([0, 1, 2, 3, 1, 0])
    wanted = 0.2 / 4 + 0.8 * torch.eye(4)[labels]
    found = classification_loss(logits, labels, None, label_smoothing=0.2)
    assert torch.allclose(found, -(wanted * to_probabilities(logits).log()).sum())
    members = torch.eye(4)[labels]
    wanted, q = 0.1 + 0.8 * members, to_probabilities(logits, multi_label=True)
    found = classification_loss(logits, members, None, label_smoothing=0.2)
    assert torch.allclose(found, -(wanted * q.log() + (1 - wanted) * (1 - q).log()).sum() / 4)
