"""Recording and editing: which sites, which heads, what is said when there is nothing to see."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from regard.errors import UserError
from regard.inspect import ablate, find_attention_layers, edit, hide, record, uniform
from regard.layers import EncoderBlock, FeedForward, MultiHeadAttention, AttentionPooling


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(
            EncoderBlock(MultiHeadAttention(12, 3, dropout=0.5), FeedForward(12, 13), dropout=0.5) for _ in range(2)
        )
        self.pool = AttentionPooling(12, hops=2)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.pool(x)[0]


FIRST, SECOND, POOL = "layers.0.attention.attend", "layers.1.attention.attend", "pool.attend"


@pytest.fixture
def net() -> Net:
    torch.manual_seed(0)
    return Net().eval()


@pytest.fixture
def x() -> Tensor:
    return torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(1))


def test_every_site_is_seen_in_order(net: Net, x: Tensor):
    assert list(find_attention_layers(net)) == [FIRST, SECOND, POOL]
    with record(net) as seen:
        net(x)
    assert seen.layers == [FIRST, SECOND, POOL]
    assert [call.order for call in seen.calls] == [0, 1, 2]
    assert seen[FIRST].shape == (2, 3, 5, 5)
    assert seen[POOL].shape == (2, 1, 2, 5)
    assert seen.calls_of(POOL)[0].qk_positions.query_axis == "hops"
    assert not seen[FIRST].requires_grad


def test_sites_are_chosen_by_name_or_pattern(net: Net, x: Tensor):
    for sites, wanted in (("layers.*", [FIRST, SECOND]), (POOL, [POOL]), ([FIRST, "pool*"], [FIRST, POOL])):
        with record(net, sites) as seen:
            net(x)
        assert seen.layers == wanted


def test_heads_and_precision_are_chosen(net: Net, x: Tensor):
    with record(net, FIRST) as whole:
        net(x)
    with record(net, FIRST, heads=[2, 0], dtype=torch.float64) as seen:
        net(x)
    assert seen[FIRST].dtype == torch.float64
    assert torch.equal(seen[FIRST], whole[FIRST][:, [2, 0]].double())


def test_unknown_sites_are_told_with_the_nearest(net: Net, x: Tensor):
    with (
        pytest.raises(UserError, match=r"no attention at 'layers.0.atention.attend'; did you mean 'layers.0"),
        record(net, "layers.0.atention.attend"),
    ):
        net(x)
    with pytest.raises(UserError, match=r"did you mean 'pool\.attend'"), edit(net, "pool.atend", uniform()):
        net(x)
    with record(net, FIRST) as seen:
        net(x)
    with pytest.raises(UserError, match="no attention was recorded"):
        seen[SECOND]


def test_nothing_to_record_is_an_error(net: Net, x: Tensor):
    with pytest.raises(UserError, match="Linear has no attention"), record(nn.Linear(3, 3)):
        pass
    with pytest.raises(UserError, match="nothing was recorded"), record(net):
        pass


def test_several_calls_of_a_site_must_be_chosen_among(net: Net, x: Tensor):
    with record(net, FIRST) as seen:
        net(x)
        net(x[:1])
    assert [len(call.weights) for call in seen.calls_of(FIRST)] == [2, 1]
    with pytest.raises(UserError, match="called 2 times"):
        seen[FIRST]


def test_a_break_inside_leaves_no_hook_and_its_own_error(net: Net, x: Tensor):
    net.train()
    with pytest.raises(ZeroDivisionError), record(net), edit(net, FIRST, uniform()):
        raise ZeroDivisionError
    assert net.training
    assert all(module.training for module in net.modules())
    assert not any(module._forward_hooks for module in net.modules())


def test_dropout_is_off_everywhere_while_recording(net: Net, x: Tensor):
    quiet = net(x)
    net.train()
    with record(net):
        assert torch.equal(net(x), quiet)
    assert not torch.equal(net(x), quiet)


def test_only_what_was_in_evaluation_mode_stays_in_it(net: Net, x: Tensor):
    net.train()
    net.pool.eval()
    with record(net):
        net(x)
    assert net.training
    assert not net.pool.training


def test_edits_change_what_follows_and_are_recorded(net: Net, x: Tensor):
    with record(net) as plain:
        before = net(x)
    with edit(net, FIRST, ablate([1])), record(net) as seen:
        after = net(x)
    assert not torch.equal(after, before)
    assert torch.equal(net(x), before)
    assert float(seen[FIRST][:, 1].abs().max()) == 0.0
    assert torch.equal(seen[FIRST][:, 0], plain[FIRST][:, 0])
    assert not torch.equal(seen[SECOND], plain[SECOND])


def test_several_edits_on_a_site_act_in_order(net: Net, x: Tensor):
    with edit(net, FIRST, hide([0])), edit(net, FIRST, uniform()), record(net) as seen:
        net(x)
    assert torch.allclose(seen[FIRST][0, 0, 0], torch.tensor([0.0, 0.25, 0.25, 0.25, 0.25]))
    with edit(net, FIRST, uniform()), edit(net, FIRST, hide([0], renormalise=False)), record(net) as seen:
        net(x)
    assert torch.allclose(seen[FIRST][0, 0, 0], torch.tensor([0.0, 0.2, 0.2, 0.2, 0.2]))


def test_edits_let_gradients_through(net: Net, x: Tensor):
    x.requires_grad_()
    with edit(net, FIRST, hide([2])):
        (grad,) = torch.autograd.grad(net.layers[0].attention(x)[:, 0].sum(), x)
    assert float(grad[:, 2].abs().max()) < 1e-6  # what it did to the others' share cancels, up to rounding
    assert bool((grad[:, 0] != 0).any())


def test_hide_renormalises_even_when_little_is_left():
    weights = torch.tensor([[[[1.0 - 1e-6, 3e-33, 1e-33, 0.0]]]])
    left = hide([0])(weights, None)  # type: ignore[arg-type]
    assert torch.allclose(left[0, 0, 0], torch.tensor([0.0, 0.75, 0.25, 0.0]), atol=1e-4)
    nothing = hide([0, 1, 2])(weights, None)  # type: ignore[arg-type]
    assert torch.equal(nothing, torch.zeros_like(weights))


def test_a_compiled_model_can_be_looked_at(net: Net, x: Tensor):
    compiled = torch.compile(net, backend="aot_eager")
    compiled(x)  # compiled before the hooks are there
    with record(compiled) as seen:
        compiled(x)
    assert len(seen) == 3
    torch.compiler.reset()
