"""What the trained statements train on is what they say, trainings repeat, and the machinery around them works at a
size that takes seconds. Whether they hold is for `regard verify --trained`."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from regard.errors import UserError
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
from regard.theory.claims.check_helpers import interval


def test_there_is_a_trained_row_for_each_topic_that_wants_one():
    ids = {claim.id for claim in verify_claims.CLAIMS if claim.kind == "trained"}
    assert {
        "relative-copying", "relative-recall", "synthesizer-recall", "penalty-trained", "pretraining-facts",
        "made-up-answers", "guessing-by-likeness", "bias", "parity-trained", "han-isolation",
    } <= ids  # fmt: skip


def test_the_same_seed_trains_the_same():
    def once(seed: int) -> torch.Tensor:
        model = train_small_model.fit(
            length_generalization.attention(1, 2, dim=8),
            length_generalization.batches("parity", seed, 8),
            steps=3,
            seed=seed,
        )
        return torch.cat([p.flatten() for p in model.parameters()])

    assert torch.equal(once(1), once(1))
    assert not torch.equal(once(1), once(2))


def test_training_learns_something():
    """One symbol decides: whoever trains at all knows it."""
    draw = np.random.default_rng(0)

    def batch(step: int):
        ids = torch.from_numpy(draw.integers(1, 3, (64, 4)))
        return ids, ids[:, 0] - 1

    model = train_small_model.fit(length_generalization.attention(1, 2, dim=16), batch, steps=120, seed=0, lr=5e-3)
    assert train_small_model.accuracy(model, *batch(0)) > 0.95


def test_accuracy_asks_only_what_is_asked():
    class Says(torch.nn.Module):
        def forward(self, ids):
            return torch.nn.functional.one_hot(ids, 5).float()

    ids = torch.tensor([[1, 2, 3]])
    assert train_small_model.accuracy(Says(), ids, torch.tensor([[1, -100, 4]]), train_small_model.written) == 0.5


def test_copying_and_recall_ask_for_what_stood_there():
    draw = np.random.default_rng(0)
    ids, targets = long_range_recall.copying(draw, 12, 5)
    assert (targets[:, long_range_recall.LAG :] == ids[:, : -long_range_recall.LAG]).all()
    assert (targets[:, : long_range_recall.LAG] == long_range_recall.NONE).all()
    ids, targets = long_range_recall.recalling(draw, 16, 50)
    for row, wanted in zip(ids.tolist(), targets.tolist(), strict=True):
        known: dict[int, int] = {}
        for at in range(0, 16, 2):
            assert wanted[at] == known.get(row[at], long_range_recall.NONE)
            assert wanted[at + 1] == long_range_recall.NONE
            known[row[at]] = row[at + 1]


def test_worlds_of_facts():
    people = closed_book_facts.world(3)
    assert len({tuple(row) for row in people.names}) == closed_book_facts.PEOPLE
    ids, targets = people.questions(np.arange(4))
    assert (targets[:, -1].numpy() == closed_book_facts.FIRST_PLACE + people.place[:4]).all()
    assert (targets[:, :-1] == closed_book_facts.NONE).all()
    assert ids[0, 0] == people.sentences(np.arange(1))[0][0, 0] == closed_book_facts.STOP
    assert people.questions(np.arange(4), closed_book_facts.ASK)[0][0, 0] == closed_book_facts.ASK
    both = closed_book_facts.beside(people.sentences(np.arange(3)), (ids, targets))
    assert both[0].shape == both[1].shape == (7, 7)
    assert (both[1][3:] != closed_book_facts.NONE).sum() == 4
    assert torch.equal(both[0][3:, : ids.shape[1]], ids)
    names, _ = closed_book_facts.unseen(3, people)
    assert not {tuple(row) for row in names} & {tuple(row) for row in people.names}
    own = closed_book_facts.world(3, 0.7)
    share = (own.place // (closed_book_facts.PLACES // closed_book_facts.GROUPS) == own.group).mean()
    assert share == pytest.approx(0.7 + 0.3 / 3, abs=0.08)


def test_groups_dealt_out_by_chance_are_near_each_other():
    draw = np.random.default_rng(0)
    group = np.arange(300) % 3
    leaning = torch.eye(3, dtype=torch.float64)[torch.from_numpy(group)]
    assert closed_book_facts._apart(leaning, group) == pytest.approx(1.0)
    assert closed_book_facts._apart(leaning, draw.permutation(group)) < 0.2


def test_lists_and_hops():
    ids, colour = sentence_isolation.texts(np.random.default_rng(0), 40, sentence_isolation.THINGS, True)
    for row, wanted in zip(ids.tolist(), colour.tolist(), strict=True):
        listed = dict(zip(row[3::2], row[2::2], strict=True))
        assert listed[row[1]] == sentence_isolation.FIRST_COLOUR + wanted
    ids, label = hop_penalty_training.texts(np.random.default_rng(0), 200)
    assert [(1 in row) + 2 * (2 in row) for row in ids.tolist()] == label.tolist()


@pytest.mark.parametrize("name", ["none", "P", "KL"])
def test_terms_of_hops_have_gradients(name):
    config = hop_penalty_training.self_attentive.SelfAttentiveConfig(
        embed=6, hidden=5, attention=4, hops=3, penalty=0.0, features=8, dropout=0.0
    )
    model = config.build(hop_penalty_training.WORDS + 1, 4)
    ids, _ = hop_penalty_training.texts(np.random.default_rng(0), 4)
    assert 0 < hop_penalty_training.alike(model, ids) <= 1.0 + 1e-6
    term = hop_penalty_training.TERMS[name]
    if term is not None:
        term(model, ids).backward()
        assert model.pool.context.weight.grad.abs().max() > 0


def test_limits_page_goes_on_where_it_stopped(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(length_sweep, "LENGTHS", (4, 8))
    trained, right = [], length_sweep.fit

    def stops(*args, **how):
        if len(trained) == 3:
            raise KeyboardInterrupt
        trained.append(how["seed"])
        return right(*args, **{**how, "steps": 3})

    monkeypatch.setattr(length_sweep, "fit", stops)
    with pytest.raises(KeyboardInterrupt):
        length_sweep.everything(tmp_path / "limits.html", quick=True)
    half = json.loads((tmp_path / "limits.json").read_text())["accuracy"]
    monkeypatch.setattr(length_sweep, "fit", lambda *args, **how: right(*args, **{**how, "steps": 3}))
    out = length_sweep.everything(tmp_path / "limits.html", quick=True)
    said = capsys.readouterr().out
    assert "3 of 8 trainings" in said
    assert "5/5 dyck-1" in said
    found = json.loads((tmp_path / "limits.json").read_text())["accuracy"]
    assert set(found) == {"parity", "dyck-1"}
    assert set(found["parity"]["LSTM"]) == {"0", "1"}
    assert all(
        found[name][who][seed] == row for name in half for who in half[name] for seed, row in half[name][who].items()
    )
    text = out.read_text()
    assert text.count("<svg") == 2
    assert "two layers set by hand" in text
    assert "https://" not in text
    with pytest.raises(UserError, match="was made with"):
        length_sweep.sweep(tmp_path / "limits.json", ["parity"], ["LSTM"], 1, 99)


def test_weights_set_by_hand_are_right_at_every_length():
    assert length_sweep.set_by_hand(50)["y"] == [1.0] * 4


def test_texts_are_the_same_for_every_model():
    length_generalization.batches.cache_clear()
    late = [length_generalization.batches("dyck-1", 0)(step)[0] for step in (3, 0)]
    length_generalization.batches.cache_clear()
    early = [length_generalization.batches("dyck-1", 0)(step)[0] for step in (0, 3)]
    assert torch.equal(late[0], early[1])
    assert torch.equal(late[1], early[0])


def test_interval():
    mean, low, high = interval([1.0, 2.0, 3.0])
    assert mean == 2.0
    assert (low, high) == pytest.approx((2 - 4.3027 / 3**0.5, 2 + 4.3027 / 3**0.5), rel=1e-3)
    assert interval([0.5])[1] == -float("inf")
