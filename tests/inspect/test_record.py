"""Recording and editing: choosing layers and heads, errors, and what is left on the model."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from regard.errors import UserError
from regard.inspect import ablate, edit, find_attention_layers, mask_keys, record, uniform
from regard.layers import AttentionPooling, EncoderBlock, FeedForward, MultiHeadAttention


class Model(nn.Module):
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
def model() -> Model:
    torch.manual_seed(0)
    return Model().eval()


@pytest.fixture
def x() -> Tensor:
    return torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(1))


def test_every_site_is_seen_in_order(model: Model, x: Tensor):
    assert list(find_attention_layers(model)) == [FIRST, SECOND, POOL]
    with record(model) as recording:
        model(x)
    assert recording.layers == [FIRST, SECOND, POOL]
    assert recording[FIRST].shape == (2, 3, 5, 5)
    assert recording[POOL].shape == (2, 1, 2, 5)
    assert recording.calls_of(POOL)[0].qk_positions.query_axis == "hops"
    assert not recording[FIRST].requires_grad


def test_layers_are_selected_by_name_or_pattern(model: Model, x: Tensor):
    for layers, expected in (("layers.*", [FIRST, SECOND]), (POOL, [POOL]), ([FIRST, "pool*"], [FIRST, POOL])):
        with record(model, layers) as recording:
            model(x)
        assert recording.layers == expected


def test_heads_and_precision_are_selected(model: Model, x: Tensor):
    with record(model, FIRST) as full:
        model(x)
    with record(model, FIRST, heads=[2, 0], dtype=torch.float64) as recording:
        model(x)
    assert recording[FIRST].dtype == torch.float64
    assert torch.equal(recording[FIRST], full[FIRST][:, [2, 0]].double())


def test_unknown_layers_are_reported_with_a_suggestion(model: Model, x: Tensor):
    with (
        pytest.raises(UserError, match=r"no attention at 'layers.0.atention.attend'; did you mean 'layers.0"),
        record(model, "layers.0.atention.attend"),
    ):
        model(x)
    with pytest.raises(UserError, match=r"did you mean 'pool\.attend'"), edit(model, "pool.atend", uniform()):
        model(x)
    with record(model, FIRST) as recording:
        model(x)
    with pytest.raises(UserError, match="no attention was recorded"):
        recording[SECOND]


def test_nothing_to_record_is_an_error(model: Model, x: Tensor):
    with pytest.raises(UserError, match="Linear has no attention"), record(nn.Linear(3, 3)):
        pass
    with pytest.raises(UserError, match="nothing was recorded"), record(model):
        pass


def test_several_calls_of_a_layer_are_ambiguous(model: Model, x: Tensor):
    with record(model, FIRST) as recording:
        model(x)
        model(x[:1])
    assert [len(call.weights) for call in recording.calls_of(FIRST)] == [2, 1]
    with pytest.raises(UserError, match="called 2 times"):
        recording[FIRST]


def test_an_exception_leaves_no_hook(model: Model, x: Tensor):
    model.train()
    with pytest.raises(ZeroDivisionError), record(model), edit(model, FIRST, uniform()):
        raise ZeroDivisionError
    assert model.training
    assert all(module.training for module in model.modules())
    assert not any(module._forward_hooks for module in model.modules())


def test_dropout_is_off_everywhere_while_recording(model: Model, x: Tensor):
    expected = model(x)
    model.train()
    with record(model):
        assert torch.equal(model(x), expected)
    assert not torch.equal(model(x), expected)


def test_each_module_keeps_its_mode(model: Model, x: Tensor):
    model.train()
    model.pool.eval()
    with record(model):
        model(x)
    assert model.training
    assert not model.pool.training


def test_edits_change_the_output_and_are_recorded(model: Model, x: Tensor):
    with record(model) as original:
        before = model(x)
    with edit(model, FIRST, ablate([1])), record(model) as recording:
        after = model(x)
    assert not torch.equal(after, before)
    assert torch.equal(model(x), before)
    assert float(recording[FIRST][:, 1].abs().max()) == 0.0
    assert torch.equal(recording[FIRST][:, 0], original[FIRST][:, 0])
    assert not torch.equal(recording[SECOND], original[SECOND])


def test_several_edits_of_a_layer_are_applied_in_order(model: Model, x: Tensor):
    with edit(model, FIRST, mask_keys([0])), edit(model, FIRST, uniform()), record(model) as recording:
        model(x)
    assert torch.allclose(recording[FIRST][0, 0, 0], torch.tensor([0.0, 0.25, 0.25, 0.25, 0.25]))
    with (
        edit(model, FIRST, uniform()),
        edit(model, FIRST, mask_keys([0], renormalize=False)),
        record(model) as recording,
    ):
        model(x)
    assert torch.allclose(recording[FIRST][0, 0, 0], torch.tensor([0.0, 0.2, 0.2, 0.2, 0.2]))


def test_edits_let_gradients_through(model: Model, x: Tensor):
    x.requires_grad_()
    with edit(model, FIRST, mask_keys([2])):
        (grad,) = torch.autograd.grad(model.layers[0].attention(x)[:, 0].sum(), x)
    assert float(grad[:, 2].abs().max()) < 1e-6  # the key only matters for the normalization, which cancels
    assert bool((grad[:, 0] != 0).any())


def test_mask_keys_renormalizes_tiny_weights():
    weights = torch.tensor([[[[1.0 - 1e-6, 3e-33, 1e-33, 0.0]]]])
    result = mask_keys([0])(weights, None)  # type: ignore[arg-type]
    assert torch.allclose(result[0, 0, 0], torch.tensor([0.0, 0.75, 0.25, 0.0]), atol=1e-4)
    empty = mask_keys([0, 1, 2])(weights, None)  # type: ignore[arg-type]
    assert torch.equal(empty, torch.zeros_like(weights))


def test_a_compiled_model_can_be_recorded(model: Model, x: Tensor):
    compiled = torch.compile(model, backend="aot_eager")
    compiled(x)  # compiled before the hooks are there
    with record(compiled) as recording:
        compiled(x)
    assert len(recording) == 3
    torch.compiler.reset()
