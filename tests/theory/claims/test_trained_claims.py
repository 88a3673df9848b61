"""The data of trained claims is as described, trainings repeat, and everything runs at a size that takes seconds.

Whether the claims hold is checked by `regard verify --trained`.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from regard.errors import UserError
from regard.models.self_attentive import SelfAttentive
from regard.theory import verify_claims
from regard.theory.claims import (
    closed_book_facts,
    hop_penalty_training,
    length_generalization,
    length_sweep,
    long_range_recall,
    sentence_isolation,
    train_small_model,
)
from regard.theory.claims.check_helpers import mean_interval


def test_every_topic_that_needs_training_has_a_trained_claim():
    ids = {claim.id for claim in verify_claims.CLAIMS if claim.kind == "trained"}
    assert {
        "relative-copying", "relative-recall", "synthesizer-recall", "penalty-trained", "pretraining-facts",
        "made-up-answers", "guessing-by-likeness", "bias", "parity-trained", "han-isolation",
    } <= ids  # fmt: skip


def test_the_same_seed_gives_the_same_weights():
    def once(seed: int) -> torch.Tensor:
        model = train_small_model.train_model(
            length_generalization.attention_builder(1, 2, dim=8),
            length_generalization.language_batches("parity", seed, 8),
            steps=3,
            seed=seed,
        )
        return torch.cat([p.flatten() for p in model.parameters()])

    assert torch.equal(once(1), once(1))
    assert not torch.equal(once(1), once(2))


def test_training_learns_something():
    """The first symbol is the label."""
    rng = np.random.default_rng(0)

    def batch(step: int):
        ids = torch.from_numpy(rng.integers(1, 3, (64, 4)))
        return ids, ids[:, 0] - 1

    model = train_small_model.train_model(
        length_generalization.attention_builder(1, 2, dim=16), batch, steps=120, seed=0, lr=5e-3
    )
    assert train_small_model.accuracy(model, *batch(0)) > 0.95


def test_accuracy_ignores_the_ignore_index():
    class Echo(torch.nn.Module):
        def forward(self, ids):
            return torch.nn.functional.one_hot(ids, 5).float()

    ids = torch.tensor([[1, 2, 3]])
    assert (
        train_small_model.accuracy(Echo(), ids, torch.tensor([[1, -100, 4]]), train_small_model.language_logits) == 0.5
    )


def test_copying_and_recall_targets_occurred_before():
    rng = np.random.default_rng(0)
    ids, targets = long_range_recall.copying_batch(rng, 12, 5)
    assert (targets[:, long_range_recall.LAG :] == ids[:, : -long_range_recall.LAG]).all()
    assert (targets[:, : long_range_recall.LAG] == train_small_model.IGNORE_INDEX).all()
    ids, targets = long_range_recall.recall_batch(rng, 16, 50)
    for row, expected in zip(ids.tolist(), targets.tolist(), strict=True):
        values: dict[int, int] = {}
        for position in range(0, 16, 2):
            assert expected[position] == values.get(row[position], train_small_model.IGNORE_INDEX)
            assert expected[position + 1] == train_small_model.IGNORE_INDEX
            values[row[position]] = row[position + 1]


def test_people_and_questions():
    people = closed_book_facts.generate_people(3)
    assert len({tuple(row) for row in people.names}) == closed_book_facts.NUM_PEOPLE
    ids, targets = people.questions(np.arange(4))
    assert (targets[:, -1].numpy() == closed_book_facts.FIRST_PLACE + people.places[:4]).all()
    assert (targets[:, :-1] == train_small_model.IGNORE_INDEX).all()
    assert ids[0, 0] == people.sentences(np.arange(1))[0][0, 0] == closed_book_facts.STOP
    assert people.questions(np.arange(4), closed_book_facts.ASK)[0][0, 0] == closed_book_facts.ASK
    combined = closed_book_facts.concat_batches(people.sentences(np.arange(3)), (ids, targets))
    assert combined[0].shape == combined[1].shape == (7, 7)
    assert (combined[1][3:] != train_small_model.IGNORE_INDEX).sum() == 4
    assert torch.equal(combined[0][3:, : ids.shape[1]], ids)
    names, _ = closed_book_facts.unseen_names(3, people)
    assert not {tuple(row) for row in names} & {tuple(row) for row in people.names}
    biased = closed_book_facts.generate_people(3, 0.7)
    fraction = (biased.places // (closed_book_facts.NUM_PLACES // closed_book_facts.NUM_GROUPS) == biased.groups).mean()
    assert fraction == pytest.approx(0.7 + 0.3 / 3, abs=0.08)


def test_permuted_groups_have_a_small_distance():
    rng = np.random.default_rng(0)
    group = np.arange(300) % 3
    one_hot = torch.eye(3, dtype=torch.float64)[torch.from_numpy(group)]
    assert closed_book_facts.group_distance(one_hot, group) == pytest.approx(1.0)
    assert closed_book_facts.group_distance(one_hot, rng.permutation(group)) < 0.2


def test_labels_of_lists_and_hops():
    ids, label = sentence_isolation.question_batch(np.random.default_rng(0), 40, sentence_isolation.NUM_THINGS, True)
    for row, expected in zip(ids.tolist(), label.tolist(), strict=True):
        listed = dict(zip(row[3::2], row[2::2], strict=True))
        assert listed[row[1]] == sentence_isolation.FIRST_COLOR + expected
    ids, label = hop_penalty_training.two_word_batch(np.random.default_rng(0), 200)
    assert [(1 in row) + 2 * (2 in row) for row in ids.tolist()] == label.tolist()


@pytest.mark.parametrize("name", ["none", "P", "KL"])
def test_hop_penalties_have_gradients(name):
    model = SelfAttentive(
        hop_penalty_training.NUM_WORDS + 1,
        4,
        embed=6,
        hidden=5,
        attention=4,
        hops=3,
        penalty=0.0,
        features=8,
        dropout=0.0,
    )
    ids, _ = hop_penalty_training.two_word_batch(np.random.default_rng(0), 4)
    assert 0 < hop_penalty_training.relative_overlap(model, ids) <= 1.0 + 1e-6
    penalty = hop_penalty_training.PENALTIES[name]
    if penalty is not None:
        penalty(model, ids).backward()
        assert model.pool.context.weight.grad.abs().max() > 0


def test_the_sweep_resumes_after_an_interrupt(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(length_sweep, "LENGTHS", (4, 8))
    trained, original = [], length_sweep.train_model

    def interrupted_training(*args, **options):
        if len(trained) == 3:
            raise KeyboardInterrupt
        trained.append(options["seed"])
        return original(*args, **{**options, "steps": 3})

    monkeypatch.setattr(length_sweep, "train_model", interrupted_training)
    with pytest.raises(KeyboardInterrupt):
        length_sweep.write_page(tmp_path / "limits.html", quick=True)
    half = json.loads((tmp_path / "limits.json").read_text())["accuracy"]
    monkeypatch.setattr(
        length_sweep, "train_model", lambda *args, **options: original(*args, **{**options, "steps": 3})
    )
    out = length_sweep.write_page(tmp_path / "limits.html", quick=True)
    output = capsys.readouterr().out
    assert "3 of 8 trainings" in output
    assert "5/5 dyck-1" in output
    accuracies = json.loads((tmp_path / "limits.json").read_text())["accuracy"]
    assert set(accuracies) == {"parity", "dyck-1"}
    assert set(accuracies["parity"]["LSTM"]) == {"0", "1"}
    assert all(
        accuracies[name][model][seed] == row
        for name in half
        for model in half[name]
        for seed, row in half[name][model].items()
    )
    text = out.read_text()
    assert text.count("<svg") == 2
    assert "two layers set by hand" in text
    assert "https://" not in text
    with pytest.raises(UserError, match="was made with"):
        length_sweep.run_sweep(tmp_path / "limits.json", ["parity"], ["LSTM"], 1, 99)


def test_hand_set_weights_are_correct_at_every_length():
    assert length_sweep.hand_set_curve(50)["y"] == [1.0] * 4


def test_every_model_gets_the_same_texts():
    length_generalization.language_batches.cache_clear()
    late = [length_generalization.language_batches("dyck-1", 0)(step)[0] for step in (3, 0)]
    length_generalization.language_batches.cache_clear()
    early = [length_generalization.language_batches("dyck-1", 0)(step)[0] for step in (0, 3)]
    assert torch.equal(late[0], early[1])
    assert torch.equal(late[1], early[0])


def test_mean_interval():
    mean, low, high = mean_interval([1.0, 2.0, 3.0])
    assert mean == 2.0
    assert (low, high) == pytest.approx((2 - 4.3027 / 3**0.5, 2 + 4.3027 / 3**0.5), rel=1e-3)
    assert mean_interval([0.5])[1] == -float("inf")
