"""Language models: which positions a prediction depends on, and logits of some positions."""

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
    "birnn, subwords": lambda: with_vocabulary(birnn.BiRNNConfig(dim=19, hidden=17, subword_buckets=53).build(V)),
}


def with_vocabulary(model: birnn.BiRNN) -> nn.Module:
    model.set_vocabulary([f"word{i}" for i in range(V)])
    return model


def token_logits(model: nn.Module, ids: torch.Tensor, **options) -> torch.Tensor:
    output = model(ids, **options)
    return output[0] if isinstance(output, tuple) else output


def random_ids(rows: int = 3, n: int = N, seed: int = 0) -> torch.Tensor:
    return torch.randint(6, V, (rows, n), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("name", MODELS)
def test_logits_of_some_positions_equal_those_of_all(name):
    model, ids = shaken(MODELS[name]()), random_ids()
    logits_at = torch.tensor([0, 5, 5, N, 2 * N + 3])
    logits = token_logits(model, ids)
    assert logits.shape == (3, N, V)
    some_logits = token_logits(model, ids, logits_at=logits_at)
    torch.testing.assert_close(some_logits, logits.flatten(0, 1)[logits_at], rtol=1e-5, atol=1e-5)


def changed_at(model: nn.Module, t: int, n: int = N) -> torch.Tensor:
    """The positions whose logits change with the token at t, (n,) bool."""
    ids = random_ids(1, n)
    other = ids.clone()
    other[:, t] = (other[:, t] - 6 + 7) % (V - 6) + 6
    with torch.no_grad():
        return (token_logits(model, ids) != token_logits(model, other)).any(-1)[0]


@pytest.mark.parametrize("name", ["birnn", "birnn, gru", "birnn, subwords"])
def test_a_cloze_prediction_does_not_depend_on_its_token(name):
    model = shaken(MODELS[name]())
    for t in range(N):
        changed = changed_at(model, t)
        assert not changed[t]
        assert changed.sum() == N - 1  # and all other positions depend on it


def test_stacked_bidirectional_layers_would_leak():
    """The reason for two separate stacks: a second layer that reads both sides knows the token at t."""

    class Stacked(nn.Module):
        def __init__(self, first):
            super().__init__()
            self.first, self.second = first, nn.GRU(32, 16, bidirectional=True, batch_first=True)

        def forward(self, x, lengths):
            return self.second(self.first(x, lengths))[0]

    model = birnn.BiRNNConfig(dim=19, hidden=16).build(V)
    model.rnn = Stacked(model.rnn)
    assert changed_at(shaken(model), 5)[5]


def test_a_cloze_prediction_uses_both_sides():
    """e[w] · (W→ h→[t-1] + W← h←[t+1]) + b[w], computed step by step."""
    model, ids = shaken(birnn.BiRNNConfig(dim=19, hidden=17, cell="gru").build(V)), random_ids(2)
    with torch.no_grad():
        x = model.embed(ids)
        forward_state = model.rnn.forward_rnn(x[:, :4])[0][:, -1]
        backward_state = model.rnn.backward_rnn(x[:, 5:].flip(1))[0][:, -1]
        state = model.before(forward_state) + model.after(backward_state)
        expected = state @ model.embed.weight.T + model.bias
        torch.testing.assert_close(model(ids)[:, 4], expected, rtol=1e-5, atol=1e-5)


def test_sampled_softmax_is_unbiased():
    """With all tokens as negatives it is the cross-entropy; with some, the normalizer is right on average."""
    model, ids = shaken(birnn.BiRNNConfig(dim=19, hidden=17).build(V)), random_ids(2)
    targets, logits_at = ids.flatten(), torch.arange(ids.numel())
    with torch.no_grad():
        exact = nn.functional.cross_entropy(model(ids).flatten(0, 1), targets, reduction="none")
        options = {"logits_at": logits_at, "targets": targets}
        all_negatives = model(ids, **options, negatives=torch.arange(V), log_weights=torch.zeros(V))
        torch.testing.assert_close(all_negatives, exact, rtol=1e-5, atol=1e-5)
        num_frequent, num_sampled = 5, 7
        sums = torch.zeros_like(exact)
        for i in range(4000):
            rest = torch.randperm(V - num_frequent, generator=torch.Generator().manual_seed(i))[:num_sampled]
            negatives = torch.cat((torch.arange(num_frequent), num_frequent + rest))
            log_weight = torch.tensor((V - num_frequent) / num_sampled).log()
            log_weights = torch.where(negatives < num_frequent, 0.0, log_weight)
            loss = model(ids, **options, negatives=negatives, log_weights=log_weights)
            sums += (loss - exact).exp()  # normalizer of the sample over that of all tokens
        torch.testing.assert_close(sums / 4000, torch.ones_like(sums), rtol=0.05, atol=0.05)


@pytest.mark.parametrize("name", ["gpt", "cnn"])
def test_a_causal_model_does_not_see_the_future(name):
    model = shaken(MODELS[name]())
    for t in range(N):
        changed = changed_at(model, t)
        assert not changed[:t].any()
        assert changed[t]


def test_context_size_of_the_cnn():
    """With kernel size 3 and dilations 1 2 1 2 1: 1 + 2 · 7 tokens."""
    model = shaken(MODELS["cnn"]())
    assert model.context_size == 15
    changed = changed_at(model, 0, 20)
    assert changed[:15].all()
    assert not changed[15:].any()


@pytest.mark.parametrize("name", ["bert", "bert, pre-norm"])
def test_bert_depends_on_all_positions(name):
    assert changed_at(shaken(MODELS[name]()), 3).all()


def test_models_keep_the_contract():
    mask = torch.arange(N) < torch.tensor([[N], [9], [5]])
    ids = random_ids() * mask
    for name in ("cnn", "birnn", "birnn, gru", "birnn, subwords"):
        model = shaken(MODELS[name]())
        check_model(model, ids, mask, call=lambda model, ids, mask: model(ids, mask=mask))


def test_pre_norm_keeps_the_contract():
    mask = torch.arange(N) < torch.tensor([[N], [9], [5]])
    segments = (torch.arange(N) > 3).long().expand(3, -1)

    def both(model: nn.Module, ids: torch.Tensor, mask: torch.Tensor, segments: torch.Tensor) -> torch.Tensor:
        tokens, next_sentence = model(ids, mask=mask, segments=segments)
        return torch.cat((tokens, next_sentence[:, None].expand(-1, ids.shape[1], -1)), -1)

    check_model(shaken(MODELS["bert, pre-norm"]()), random_ids() * mask, mask, segments, call=both)


@pytest.mark.parametrize(
    "config",
    [
        birnn.BiRNNConfig(hidden=0),
        birnn.BiRNNConfig(cell="rnn"),
        causal_cnn.CausalCNNConfig(layers=0),
        causal_cnn.CausalCNNConfig(kernel_size=0),
    ],
)
def test_invalid_sizes_are_errors(config):
    with pytest.raises(UserError):
        config.build(V)
