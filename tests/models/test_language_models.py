"""Models of language look where they may and nowhere else, and give the words at some places as at all."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from regard.errors import UserError
from regard.models import bert, birnn, causal_cnn, gpt
from regard.testing import check_model

V, N = 37, 13


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def shaken(model: nn.Module) -> nn.Module:
    with torch.no_grad():
        for i, p in enumerate(model.parameters()):
            p.add_(0.2 * torch.randn(p.shape, generator=torch.Generator().manual_seed(i)))
    return model.eval()


MODELS = {
    "gpt": lambda: gpt.GPTConfig(dim=20, layers=2, heads=2).build(V),
    "cnn": lambda: causal_cnn.CausalCNNConfig(dim=19, layers=5, kernel_size=3, dilation_cycle=2).build(V),
    "bert": lambda: bert.BERTConfig(dim=20, hidden=29, layers=2, heads=2, positions="rotary").build(V),
    "bert, pre-norm": lambda: bert.BERTConfig(dim=20, hidden=29, layers=2, heads=2, norm="pre").build(V),
    "birnn": lambda: birnn.BiRNNConfig(dim=19, hidden=17, layers=2).build(V),
    "birnn, gru": lambda: birnn.BiRNNConfig(dim=19, hidden=17, layers=3, cell="gru").build(V),
    "birnn, spelt": lambda: spelt(birnn.BiRNNConfig(dim=19, hidden=17, subword_buckets=53).build(V)),
}


def spelt(model: birnn.BiRNN) -> nn.Module:
    model.set_vocabulary([f"word{i}" for i in range(V)])
    return model


def words(model: nn.Module, ids: torch.Tensor, **given) -> torch.Tensor:
    out = model(ids, **given)
    return out[0] if isinstance(out, tuple) else out


def text(rows: int = 3, n: int = N, seed: int = 0) -> torch.Tensor:
    return torch.randint(6, V, (rows, n), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("name", MODELS)
def test_some_places_are_as_among_all(name):
    model, ids = shaken(MODELS[name]()), text()
    places = torch.tensor([0, 5, 5, N, 2 * N + 3])
    every = words(model, ids)
    assert every.shape == (3, N, V)
    torch.testing.assert_close(words(model, ids, places=places), every.flatten(0, 1)[places], rtol=1e-5, atol=1e-5)


def changed_at(model: nn.Module, t: int, n: int = N) -> torch.Tensor:
    """At which places what is said changes with the word at t, (n,)."""
    ids = text(1, n)
    other = ids.clone()
    other[:, t] = (other[:, t] - 6 + 7) % (V - 6) + 6
    with torch.no_grad():
        return (words(model, ids) != words(model, other)).any(-1)[0]


@pytest.mark.parametrize("name", ["birnn", "birnn, gru", "birnn, spelt"])
def test_a_blank_is_named_without_looking_at_it(name):
    model = shaken(MODELS[name]())
    for t in range(N):
        changed = changed_at(model, t)
        assert not changed[t]
        assert changed.sum() == N - 1  # and every other place knows the word


def test_stacked_two_way_layers_would_leak():
    """What the two separate stacks are for: with a second layer that reads both sides the word at t is seen."""

    class Stacked(nn.Module):
        def __init__(self, first):
            super().__init__()
            self.first, self.second = first, nn.GRU(32, 16, bidirectional=True, batch_first=True)

        def forward(self, x, lengths):
            return self.second(self.first(x, lengths))[0]

    model = birnn.BiRNNConfig(dim=19, hidden=16).build(V)
    model.read = Stacked(model.read)
    assert changed_at(shaken(model), 5)[5]


def test_a_blank_comes_from_both_sides():
    """e[w] · (W→ h→[t-1] + W← h←[t+1]) + b[w], worked out by hand."""
    model, ids = shaken(birnn.BiRNNConfig(dim=19, hidden=17, cell="gru").build(V)), text(2)
    with torch.no_grad():
        x = model.embed(ids)
        onward = model.rnn.onward(x[:, :4])[0][:, -1]
        back = model.rnn.back(x[:, 5:].flip(1))[0][:, -1]
        state = model.before(onward) + model.after(back)
        wanted = state @ model.embed.weight.T + model.bias
        torch.testing.assert_close(model(ids)[:, 4], wanted, rtol=1e-5, atol=1e-5)


def test_a_blank_among_some_words_is_a_blank_among_all():
    """Told from every word it is the cross-entropy; told from some, that is what comes out in the mean of Z."""
    model, ids = shaken(birnn.BiRNNConfig(dim=19, hidden=17).build(V)), text(2)
    wanted, places = ids.flatten(), torch.arange(ids.numel())
    with torch.no_grad():
        exact = nn.functional.cross_entropy(model(ids).flatten(0, 1), wanted, reduction="none")
        told = {"places": places, "targets": wanted}
        every = model(ids, **told, negatives=torch.arange(V), log_weights=torch.zeros(V))
        torch.testing.assert_close(every, exact, rtol=1e-5, atol=1e-5)
        frequent, drawn = 5, 7
        sums = torch.zeros_like(exact)
        for i in range(4000):
            rest = torch.randperm(V - frequent, generator=torch.Generator().manual_seed(i))[:drawn]
            others = torch.cat((torch.arange(frequent), frequent + rest))
            weight = torch.where(others < frequent, 0.0, torch.tensor((V - frequent) / drawn).log())
            sums += (model(ids, **told, negatives=others, log_weights=weight) - exact).exp()  # Z of these over Z of all
        torch.testing.assert_close(sums / 4000, torch.ones_like(sums), rtol=0.05, atol=0.05)


@pytest.mark.parametrize("name", ["gpt", "cnn"])
def test_the_future_is_not_seen(name):
    model = shaken(MODELS[name]())
    for t in range(N):
        changed = changed_at(model, t)
        assert not changed[:t].any()
        assert changed[t]


def test_how_far_the_cnn_sees():
    """With filters of width 3 and reaches 1 2 1 2 1: 1 + 2 · 7 words."""
    model = shaken(MODELS["cnn"]())
    assert model.context_size == 15
    changed = changed_at(model, 0, 20)
    assert changed[:15].all()
    assert not changed[15:].any()


@pytest.mark.parametrize("name", ["bert", "bert, pre-norm"])
def test_bert_sees_all(name):
    assert changed_at(shaken(MODELS[name]()), 3).all()


def test_models_keep_the_contract():
    mask = torch.arange(N) < torch.tensor([[N], [9], [5]])
    ids = text() * mask
    for name in ("cnn", "birnn", "birnn, gru", "birnn, spelt"):
        model = shaken(MODELS[name]())
        check_model(model, ids, mask, call=lambda model, ids, mask: model(ids, mask=mask))


def test_pre_norm_keeps_the_contract():
    mask = torch.arange(N) < torch.tensor([[N], [9], [5]])
    segments = (torch.arange(N) > 3).long().expand(3, -1)

    def both(model: nn.Module, ids: torch.Tensor, mask: torch.Tensor, segments: torch.Tensor) -> torch.Tensor:
        found, follows = model(ids, mask=mask, segments=segments)
        return torch.cat((found, follows[:, None].expand(-1, ids.shape[1], -1)), -1)

    check_model(shaken(MODELS["bert, pre-norm"]()), text() * mask, mask, segments, call=both)


@pytest.mark.parametrize(
    "config",
    [birnn.BiRNNConfig(hidden=0), birnn.BiRNNConfig(cell="rnn"), causal_cnn.CausalCNNConfig(layers=0), causal_cnn.CausalCNNConfig(kernel_size=0)],
)
def test_sizes_that_cannot_be_meant(config):
    with pytest.raises(UserError):
        config.build(V)
