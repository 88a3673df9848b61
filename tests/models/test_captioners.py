"""Captioners: the equations of the recurrent one, the maps that explain each word, and both decoders step by step."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from regard.attention.token_positions import Grid
from regard.decoding import BeamSearch, Sampling
from regard.decoding.caption_decoder import CaptionGenerator
from regard.errors import UserError
from regard.inspect import record
from regard.layers.conv_backbone import ConvBackbone
from regard.models import rnn_captioner, transformer_captioner
from regard.models.image_classifier import ImageClassifierConfig as Seer
from regard.tasks.caption.objective import collate, capture_word_maps, stack_word_maps, compute_word_maps

SMALL = {"channels": (8, 12), "blocks": 1, "dim": 16, "dropout": 0.0}
MODELS = {
    "rnn": lambda **more: rnn_captioner.RNNCaptionerConfig(**SMALL, hidden=14, **more),
    "transformer": lambda **more: transformer_captioner.TransformerCaptionerConfig(**SMALL, hidden=24, heads=2, **more),
}


def made(kind: str, **more):
    torch.manual_seed(0)
    return MODELS[kind](**more).build(23).eval()


def pictures(b: int = 3, height: int = 20, width: int = 28) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).integers(0, 256, (b, height, width, 3)).astype(np.uint8))


def test_the_recurrent_captioner_is_its_equations():
    model, seen, ids = made("rnn"), pictures(2), torch.tensor([[2, 7, 9], [2, 8, 5]])
    with torch.no_grad():
        m = model.image_encoder(seen).flatten(1, 2)
        h = torch.tanh(model.first(m.mean(1)))
        key = model.decoder.attention.mechanism.q.weight  # W^key, one head
        wanted = []
        for t in range(3):
            e = model.embed(ids[:, t])
            alpha = (m @ F.linear(h, key).unsqueeze(-1)).squeeze(-1).softmax(-1)  # from h[t-1]
            v = (alpha[..., None] * m).sum(1)
            h = model.decoder.cells[0](torch.cat((e, v), -1), h)
            said = torch.tanh(model.decoder.join(torch.cat((h, v, e), -1)))
            wanted.append(said @ model.embed.weight.T + model.bias)
        torch.testing.assert_close(model(seen, ids), torch.stack(wanted, 1), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", MODELS)
def test_several_captions_of_a_picture_are_as_if_each_were_alone(kind):
    model, seen = made(kind), pictures(2)
    ids = torch.randint(6, 23, (6, 5), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        together = model(seen, ids)
        for row in range(6):
            torch.testing.assert_close(
                together[row], model(seen[row // 3, None], ids[row, None])[0], atol=1e-5, rtol=1e-4
            )
        places = torch.tensor([0, 7, 29])
        torch.testing.assert_close(
            model(seen, ids, logits_at=places), together.flatten(0, 1)[places], atol=1e-5, rtol=1e-4
        )


@pytest.mark.parametrize("kind", MODELS)
def test_a_map_explains_the_word_said_from_the_state_it_entered(kind):
    """Hide from one word's attention what it looks at: the words before it are said as before, and it is not."""
    model, seen, ids = made(kind), pictures(1), torch.tensor([[2, 7, 9, 11, 5]])
    step = 2
    with torch.no_grad():
        before = model(seen, ids)[0]

    from regard.attention.scores import Attend

    sites = [m for n, m in model.named_modules() if isinstance(m, Attend) and ("source" in n or kind == "rnn")]
    calls = {"n": 0}

    def disturb(module, args, kwargs, output):
        if kind == "rnn":
            calls["n"] += 1
            return output + 1.0 if calls["n"] == step + 1 else output
        output = output.clone()
        output[:, :, step] += 1.0
        return output

    handles = [m.register_forward_hook(disturb, with_kwargs=True) for m in sites]
    with torch.no_grad():
        after = model(seen, ids)[0]
    for handle in handles:
        handle.remove()
    same = (after - before).abs().amax(-1) < 1e-6
    assert same[:step].all()
    assert not same[step]


@pytest.mark.parametrize("kind", MODELS)
def test_maps_sum_to_one_over_the_picture_and_are_those_recorded(kind):
    model, seen = made(kind), pictures(2)
    rows = [[7, 8, 3], [9, 10, 11, 12, 3]]
    maps = compute_word_maps(model, seen, rows)
    assert [m.shape for m in maps] == [(3, 5, 7), (5, 5, 7)]
    for map_ in maps:
        np.testing.assert_allclose(map_.sum((1, 2)), 1, atol=1e-5)
    made_ = collate(seen, rows)
    with record(model) as seen_there:
        model(seen, made_.target)
    calls = [c.weights.mean(1) for c in seen_there.calls if isinstance(c.qk_positions.k_pos, Grid)]
    wanted = torch.cat(calls, 1) if kind == "rnn" else torch.stack(calls).mean(0)
    np.testing.assert_allclose(maps[1].reshape(5, -1), wanted[1].numpy(), atol=1e-6)


@pytest.mark.parametrize("kind", MODELS)
def test_kept_maps_have_gradients(kind):
    model, seen = made(kind), pictures(2)
    batch = collate(seen, [[7, 3], [8, 3], [9, 3], [10, 3]])
    with capture_word_maps(model) as kept:
        model(batch.pictures, batch.target)
    maps = stack_word_maps(kept, 4)
    assert maps.shape == (4, 2, 35)
    ((1 - maps.sum(1)) ** 2).sum().backward()
    assert model.image_encoder.backbone.stages[0][0].weight.grad.abs().sum() > 0


@pytest.mark.parametrize("kind", MODELS)
def test_beams_say_what_is_likeliest(kind):
    """Greedy against a plain loop over the whole model; and a beam finds nothing less likely."""
    model, seen = made(kind), pictures(3)
    with torch.no_grad():
        model.bias[:] = torch.randn(23, generator=torch.Generator().manual_seed(4))
    found = CaptionGenerator(model, suppress=[0, 1, 2, 4, 5]).generate(seen.numpy(), strategy=BeamSearch(1), max_length=6)
    for i, said in enumerate(found):
        ids, logp = [2], 0.0
        with torch.no_grad():
            for _ in range(7):
                logits = model(seen[i, None], torch.tensor([ids]))[0, -1]
                logits[[0, 1, 2, 4, 5]] = -torch.inf
                word = int(logits.argmax())
                logp += float(logits.log_softmax(-1)[word])
                ids.append(word)
                if word == 3 or len(ids) == 7:
                    break
        assert said[0].ids == [w for w in ids[1:] if w != 3]
        assert said[0].log_prob == pytest.approx(logp, abs=1e-4)
    wide = CaptionGenerator(model, suppress=[0, 1, 2, 4, 5]).generate(seen.numpy(), strategy=BeamSearch(4, alpha=0.0), max_length=6)
    assert all(b[0].log_prob >= g[0].log_prob - 1e-5 for b, g in zip(wide, found, strict=True) if b[0].ended == g[0].ended)


@pytest.mark.parametrize("kind", MODELS)
def test_drawn_captions_do_not_hang_on_the_batch(kind):
    model, seen = made(kind), pictures(3).numpy()
    how = Sampling(1.0, seed=5)
    together = CaptionGenerator(model).generate(seen, strategy=how, max_length=6)
    assert together[0][0].ids == CaptionGenerator(model).generate(seen[:1], strategy=how, max_length=6)[0][0].ids


def test_the_eye_does_not_see_the_other_pictures():
    torch.manual_seed(0)
    eye, seen = ConvBackbone((8, 16), 11).eval(), pictures(3)
    with torch.no_grad():
        torch.testing.assert_close(eye(seen)[1], eye(seen[1:2])[0], atol=1e-5, rtol=1e-5)
    assert eye(seen).shape == (3, 5, 7, 11)


@pytest.mark.parametrize("shape", [(2, 3, 20, 20), (2, 20, 20), (1, 3, 20, 3)])
def test_what_is_no_picture_is_an_error(shape):
    with pytest.raises(UserError, match="images must have shape"):
        ConvBackbone((8, 16), 11)(torch.zeros(shape))


def test_what_cannot_look_at_a_picture_is_an_error():
    with pytest.raises(UserError, match="cannot look at a picture"):
        rnn_captioner.RNNCaptionerConfig(**SMALL, mechanism="synthesizer-dense").build(23)


@pytest.mark.parametrize(
    ("mechanism", "positions"),
    [("dot", "axial"), ("local-2d:window=2", "none"), ("relative", "none"), ("dot", "rotary")],
)
def test_pictures_are_classified_with_spatial_self_attention(mechanism, positions):
    torch.manual_seed(0)
    model = Seer(channels=(8, 12), dim=16, layers=1, heads=2, mechanism=mechanism, positions=positions).build(3).eval()
    with record(model) as seen:
        logits = model(pictures(2)).logits
    assert logits.shape == (2, 3)
    own, pooled = seen.calls[0].weights, seen.calls[-1].weights
    assert own.shape[-2] == 35
    torch.testing.assert_close(own.sum(-1), torch.ones(own.shape[:-1]))
    assert pooled.shape == (2, 1, 1, 35)


def test_a_picture_of_height_one_is_the_layer_on_a_sequence():
    """The blocks of sight over a grid of one row are those over a sequence."""
    from regard.models.image_encoder import ImageEncoder

    torch.manual_seed(0)
    encoder = ImageEncoder((8,), 16, layers=2, heads=2, positions="rotary").eval()
    x = torch.randn(2, 9, 16)
    with torch.no_grad():
        for layer in encoder.layers:
            torch.testing.assert_close(layer(x, position_ids=Grid(1, 9)), layer(x), atol=1e-6, rtol=1e-5)
