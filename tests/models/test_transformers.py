"""The Transformers of the papers: their sizes, any mechanism and positions in them, and steps equal to all at once."""

import pytest
import torch
from torch import nn

from regard.attention.mechanisms import MECHANISMS
from regard.attention.positions import POSITIONS
from regard.errors import UserError
from regard.inspect import record
from regard.models import bert, gpt, marian, t5, transformer

V, M, N = 37, 11, 7
PAIRS = [(m, p) for m in MECHANISMS for p in POSITIONS if POSITIONS[p].kind in MECHANISMS[m].accepts]


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """Tensors this small lose more to waking a second thread than they gain."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def words(n: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(1, V, (3, n), generator=torch.Generator().manual_seed(seed))


def close(a, b) -> None:
    torch.testing.assert_close(a, b, atol=1e-5, rtol=1e-5)


def shake(model: nn.Module) -> nn.Module:
    with torch.no_grad():
        for i, parameter in enumerate(model.parameters()):
            parameter.add_(0.2 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(i)))
    return model.eval()


@pytest.mark.parametrize(
    ("build", "parameters"),
    [
        (lambda: bert.BERT(bert.BASE_VOCAB_SIZE, bert.BASE), 110_106_428),  # BertForPreTraining of bert-base-uncased
        (lambda: gpt.GPT(gpt.GPT2_VOCAB_SIZE, gpt.GPT2), 124_439_808),  # gpt2
        (lambda: t5.T5(32_128), 60_506_624),  # t5-small
        (
            lambda: transformer.Transformer(transformer.BASE_VOCAB_SIZE, transformer.BASE),
            63_082_496 + 37_000,
        ),  # the paper's base, and the bias
    ],
)
def test_the_papers_sizes(build, parameters):
    with torch.device("meta"):
        assert sum(p.numel() for p in build().parameters()) == parameters


STARTS = [
    (
        lambda: bert.BERT(V, dim=96, hidden=192, layers=2, heads=2),
        {"embed": 0.02, "layers.1.ffn.down": 0.02, "pooler": 0.02},
    ),
    (
        lambda: gpt.GPT(V, dim=96, layers=8, heads=2),  # parts that are added start smaller by sqrt(2 · 8)
        {"embed": 0.02, "layers.3.ffn.up": 0.02, "layers.3.ffn.down": 0.005, "layers.3.attention.out": 0.005},
    ),
    (
        lambda: transformer.Transformer(V, dim=96, hidden=192, layers=1),  # Xavier's deviation: sqrt(2 / (in + out))
        {"embed": 96**-0.5, "encoder.0.ffn.up": (2 / 288) ** 0.5, "decoder.0.cross_attention.out": (2 / 192) ** 0.5},
    ),
    (
        lambda: marian.Marian(V, dim=96, hidden=192, layers=1, heads=2),
        {"embed": 96**-0.5, "encoder.0.ffn.up": (2 / 288) ** 0.5, "decoder.0.cross_attention.out": (2 / 192) ** 0.5},
    ),
    (
        lambda: t5.T5(V, dim=96, hidden=192, layers=1, heads=2, key_width=24),
        {
            "embed": 1.0,
            "encoder.0.ffn.up": 96**-0.5,
            "encoder.0.ffn.down": 192**-0.5,
            "decoder.0.cross_attention.out": 48**-0.5,
        },
    ),
]


@pytest.mark.parametrize(("build", "spread"), STARTS, ids=["bert", "gpt", "transformer", "marian", "t5"])
def test_weights_start_as_the_papers_code_starts_them(build, spread):
    torch.manual_seed(0)
    model = build()
    for name, std in spread.items():
        weight = model.get_submodule(name).weight.detach()
        assert float(weight.std()) == pytest.approx(std, rel=0.05), name
        assert abs(float(weight.mean())) < 0.1 * std, name


@pytest.mark.parametrize("model", [bert.BERT, gpt.GPT, marian.Marian, t5.T5, transformer.Transformer])
def test_a_config_has_few_fields_and_is_frozen(model):
    config = model.config_class()
    assert len(vars(config)) <= 10
    with pytest.raises(AttributeError):
        config.dim = 1


@pytest.mark.parametrize(("mechanism", "positions"), PAIRS)
def test_gpt_by_steps_equals_all_at_once_and_sees_no_future(mechanism, positions):
    model = shake(gpt.GPT(V, dim=12, layers=2, heads=2, mechanism=mechanism, positions=positions))
    ids = words(M)
    with torch.no_grad():
        want = model(ids)
        past, got = None, []
        for start, stop in [(0, 3), (3, 4), (4, 5), (5, 8), (8, M)]:
            logits, past = model.step(ids[:, start:stop], past)
            got.append(logits)
        close(torch.cat(got, 1), want)
        other = torch.cat((ids[:, :5], words(M, 1)[:, 5:]), 1)
        close(model(other)[:, :5], want[:, :5])
        assert (model(other)[:, 5:] - want[:, 5:]).abs().max() > 1e-2


@pytest.mark.parametrize(("mechanism", "positions"), PAIRS)
def test_gpt_goes_on_from_rows_of_unequal_length(mechanism, positions):
    """Padding on the left: it is hidden from every later step, and each row goes on from where it stands."""
    model = shake(gpt.GPT(V, dim=12, layers=2, heads=2, mechanism=mechanism, positions=positions))
    ids, lengths = words(M), torch.tensor([5, 2, 1])
    mask = torch.arange(M) >= 5 - lengths[:, None]
    at = (torch.arange(M) - 5 + lengths[:, None]).clamp(min=0)
    with torch.no_grad():
        want = model(ids, mask=mask, position_ids=at)
        logits, past = model.step(ids[:, :5], mask=mask[:, :5], position_ids=at[:, :5])
        got = [logits]
        for t in range(5, M):
            logits, past = model.step(ids[:, t : t + 1], past)
            got.append(logits)
        close(torch.cat(got, 1)[mask], want[mask])
        close(want[2, 4:], model(ids[2:, 4:])[0])


@pytest.mark.parametrize("norm", ["post", "pre"])
@pytest.mark.parametrize(
    ("mechanism", "positions"), [*[(m, "sinusoidal") for m in MECHANISMS], ("dot", "rotary"), ("dot", "t5")]
)
def test_transformer_by_steps_equals_all_at_once_and_padding_is_invisible(mechanism, positions, norm):
    config = transformer.TransformerConfig(12, 20, 2, 1, 2, mechanism=mechanism, positions=positions, norm=norm)
    model = shake(transformer.Transformer(V, config))
    source, target = words(M), words(N, 1)
    mask = torch.arange(M)[None] < torch.tensor([M, 5, 2])[:, None]
    with torch.no_grad():
        want = model(source, target, source_mask=mask)
        read = model.project_source(model.encode(source, mask=mask), mask=mask)
        past, got = None, []
        for t in range(N):
            logits, past = model.step(target[:, t : t + 1], past, read)
            got.append(logits)
        close(torch.cat(got, 1), want)
        close(model(source[1:2, :5], target[1:2]), want[1:2])
        picked = torch.tensor([2, 0, 2])
        again, _ = model.step(target[picked, :1], None, [memory.select(picked) for memory in read])
        close(again, want[picked, :1])


def test_transformer_equals_torch():
    """The paper's own blocks: torch.nn's layers, given the same weights, give the same states."""
    model = shake(transformer.Transformer(V, dim=12, hidden=20, layers=1, decoder_layers=1, heads=2))
    options = {"dim_feedforward": 20, "dropout": 0.0, "batch_first": True}
    encoder, decoder = nn.TransformerEncoderLayer(12, 2, **options), nn.TransformerDecoderLayer(12, 2, **options)
    with torch.no_grad():
        for ours, theirs in ((model.encoder[0], encoder), (model.decoder[0], decoder)):
            attentions = [(ours.attention, theirs.self_attn)]
            norms = [(ours.attention_residual.norm, theirs.norm1)]
            if isinstance(theirs, nn.TransformerDecoderLayer):
                attentions.append((ours.cross_attention, theirs.multihead_attn))
                norms += [(ours.cross_attention_residual.norm, theirs.norm2), (ours.ffn_residual.norm, theirs.norm3)]
            else:
                norms.append((ours.ffn_residual.norm, theirs.norm2))
            for a, b in attentions:
                b.in_proj_weight.copy_(a.mechanism.qkv.weight)
                b.in_proj_bias.copy_(a.mechanism.qkv.bias)
                b.out_proj.load_state_dict(a.out.state_dict())
            for a, b in norms:
                b.load_state_dict(a.state_dict())
            theirs.linear1.load_state_dict(ours.ffn.up.state_dict())
            theirs.linear2.load_state_dict(ours.ffn.down.state_dict())
        source, target = words(M), words(N, 1)
        mask = torch.arange(M)[None] < torch.tensor([M, 5, 2])[:, None]
        embed = lambda ids: model.positions.embed(12**0.5 * model.embed(ids), range(ids.shape[1]))  # noqa: E731
        states = encoder(embed(source), src_key_padding_mask=~mask)
        future = torch.ones(N, N, dtype=torch.bool).triu(1)
        out = decoder(embed(target), states, tgt_mask=future, memory_key_padding_mask=~mask)
        close(model(source, target, source_mask=mask), out @ model.embed.weight.t() + model.bias)


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_bert_padding_and_batch_mates_are_invisible(mechanism):
    config = bert.BERTConfig(12, 20, 2, 2, mechanism=mechanism, positions="learned:length=16")
    model = shake(bert.BERT(V, config))
    ids, mask = words(M), torch.arange(M)[None] < torch.tensor([M, 5, 2])[:, None]
    with torch.no_grad():
        states = model.hidden_states(ids, mask=mask)
        close(states[1:2, :5], model.hidden_states(ids[1:2, :5]))
        assert model.token_logits(states[mask]).shape == (int(mask.sum()), V)


def test_every_parameter_gets_a_gradient():
    ids, target, segments = words(N), words(N, 1), torch.arange(N).expand(3, N) // 4
    models = {
        "bert": (
            bert.BERT(V, dim=12, hidden=20, layers=2, heads=2),
            lambda m: sum(o.square().sum() for o in m(ids, segments=segments)),
        ),
        "gpt": (gpt.GPT(V, dim=12, layers=2, heads=2, positions="t5"), lambda m: m(ids).square().sum()),
        "transformer": (
            transformer.Transformer(V, dim=12, hidden=20, layers=2, decoder_layers=1, heads=2),
            lambda m: m(ids, target).square().sum(),
        ),
        "marian": (
            marian.Marian(V, dim=12, hidden=20, layers=2, decoder_layers=1, heads=2),
            lambda m: m(ids, target).square().sum(),
        ),
        "t5": (
            t5.T5(
                V, dim=12, hidden=20, layers=2, decoder_layers=1, heads=2, key_width=5, gated_ffn=True, tied_head=False
            ),
            lambda m: m(ids, target).square().sum(),
        ),
    }
    for name, (model, loss) in models.items():
        loss(model).backward()
        for parameter, tensor in model.named_parameters():
            assert tensor.grad is not None, (name, parameter)
            assert tensor.grad.abs().max() > 0, (name, parameter)


def test_every_place_of_attention_has_a_name():
    model = transformer.Transformer(V, dim=12, hidden=20, layers=2, decoder_layers=1, heads=2)
    with record(model) as seen:
        model(words(M), words(N, 1))
    assert seen.layers == [
        "encoder.0.attention.attend",
        "encoder.1.attention.attend",
        "decoder.0.attention.attend",
        "decoder.0.cross_attention.attend",
    ]
    assert seen["decoder.0.cross_attention.attend"].shape == (3, 2, N, M)
    assert seen.calls_of("decoder.0.cross_attention.attend")[0].qk_positions.key_axis == "source"


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: gpt.GPT(V, dim=12, layers=1, heads=5), "heads=5 does not divide dim=12"),
        (lambda: gpt.GPT(V, dim=12, layers=1, heads=2, activation="gleu"), "did you mean 'gelu'"),
        (lambda: gpt.GPT(V, dim=12, layers=1, heads=2, mechanism="dott"), "did you mean 'dot'"),
        (
            lambda: gpt.GPT(V, dim=12, layers=1, heads=2, mechanism="relative", positions="rotary"),
            "does not support 'rotary'",
        ),
        (lambda: transformer.Transformer(V, norm="past"), "did you mean 'post'"),
        (lambda: gpt.GPT(V, dim=12, layers=1, heads=2, positions="learned:length=4")(words(N)), "out of range 0 to 3"),
    ],
)
def test_what_is_wrong_is_said(build, message):
    with pytest.raises(UserError, match=message):
        build()
