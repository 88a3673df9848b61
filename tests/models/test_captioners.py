"""Captioners: equations, word maps, decoding; the image encoder and the image classifier."""

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
from regard.models.image_classifier import ImageClassifier
from regard.tasks.caption.objective import capture_word_maps, collate, compute_word_maps, stack_word_maps

SMALL = {"channels": (8, 12), "blocks": 1, "dim": 16, "dropout": 0.0}
MODELS = {
    "rnn": lambda **options: rnn_captioner.RNNCaptionerConfig(**SMALL, hidden=14, **options),
    "transformer": lambda **options: transformer_captioner.TransformerCaptionerConfig(
        **SMALL, hidden=24, heads=2, **options
    ),
}


def build_captioner(kind: str, **options):
    torch.manual_seed(0)
    return MODELS[kind](**options).build(23).eval()


def random_images(b: int = 3, height: int = 20, width: int = 28) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(0).integers(0, 256, (b, height, width, 3)).astype(np.uint8))


def test_the_recurrent_captioner_follows_its_equations():
    model, images, ids = build_captioner("rnn"), random_images(2), torch.tensor([[2, 7, 9], [2, 8, 5]])
    with torch.no_grad():
        m = model.image_encoder(images).flatten(1, 2)
        h = torch.tanh(model.first_state(m.mean(1)))
        key = model.decoder.attention.mechanism.q.weight  # W^key, one head
        expected = []
        for t in range(3):
            e = model.embed(ids[:, t])
            alpha = (m @ F.linear(h, key).unsqueeze(-1)).squeeze(-1).softmax(-1)  # from h[t-1]
            v = (alpha[..., None] * m).sum(1)
            h = model.decoder.cells[0](torch.cat((e, v), -1), h)
            output = torch.tanh(model.decoder.out(torch.cat((h, v, e), -1)))
            expected.append(output @ model.embed.weight.T + model.bias)
        torch.testing.assert_close(model(images, ids), torch.stack(expected, 1), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", MODELS)
def test_several_captions_of_an_image_equal_single_captions(kind):
    model, images = build_captioner(kind), random_images(2)
    ids = torch.randint(6, 23, (6, 5), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        together = model(images, ids)
        for row in range(6):
            torch.testing.assert_close(
                together[row], model(images[row // 3, None], ids[row, None])[0], atol=1e-5, rtol=1e-4
            )
        places = torch.tensor([0, 7, 29])
        torch.testing.assert_close(
            model(images, ids, logits_at=places), together.flatten(0, 1)[places], atol=1e-5, rtol=1e-4
        )


@pytest.mark.parametrize("kind", MODELS)
def test_a_map_belongs_to_the_token_predicted_from_its_step(kind):
    """Disturbing the attention of one step changes the prediction of that step and none before it."""
    model, images, ids = build_captioner(kind), random_images(1), torch.tensor([[2, 7, 9, 11, 5]])
    step = 2
    with torch.no_grad():
        before = model(images, ids)[0]

    from regard.attention.scores import Attend

    layers = [
        m for n, m in model.named_modules() if isinstance(m, Attend) and ("cross_attention" in n or kind == "rnn")
    ]
    calls = {"n": 0}

    def disturb(module, args, kwargs, output):
        if kind == "rnn":
            calls["n"] += 1
            return output + 1.0 if calls["n"] == step + 1 else output
        output = output.clone()
        output[:, :, step] += 1.0
        return output

    handles = [m.register_forward_hook(disturb, with_kwargs=True) for m in layers]
    with torch.no_grad():
        after = model(images, ids)[0]
    for handle in handles:
        handle.remove()
    same = (after - before).abs().amax(-1) < 1e-6
    assert same[:step].all()
    assert not same[step]


@pytest.mark.parametrize("kind", MODELS)
def test_maps_sum_to_one_and_equal_the_recorded_weights(kind):
    model, images = build_captioner(kind), random_images(2)
    rows = [[7, 8, 3], [9, 10, 11, 12, 3]]
    maps = compute_word_maps(model, images, rows)
    assert [m.shape for m in maps] == [(3, 5, 7), (5, 5, 7)]
    for map_ in maps:
        np.testing.assert_allclose(map_.sum((1, 2)), 1, atol=1e-5)
    batch = collate(images, rows)
    with record(model) as recording:
        model(images, batch.inputs)
    calls = [c.weights.mean(1) for c in recording.calls if isinstance(c.qk_positions.k_pos, Grid)]
    expected = torch.cat(calls, 1) if kind == "rnn" else torch.stack(calls).mean(0)
    np.testing.assert_allclose(maps[1].reshape(5, -1), expected[1].numpy(), atol=1e-6)


@pytest.mark.parametrize("kind", MODELS)
def test_captured_maps_have_gradients(kind):
    model, images = build_captioner(kind), random_images(2)
    batch = collate(images, [[7, 3], [8, 3], [9, 3], [10, 3]])
    with capture_word_maps(model) as captured:
        model(batch.images, batch.inputs)
    maps = stack_word_maps(captured, 4)
    assert maps.shape == (4, 2, 35)
    ((1 - maps.sum(1)) ** 2).sum().backward()
    assert model.image_encoder.backbone.stages[0][0].weight.grad.abs().sum() > 0


@pytest.mark.parametrize("kind", MODELS)
def test_beam_search_finds_the_most_probable_caption(kind):
    """Beam size 1 equals a plain greedy loop; a larger beam finds nothing less probable."""
    model, images = build_captioner(kind), random_images(3)
    with torch.no_grad():
        model.bias[:] = torch.randn(23, generator=torch.Generator().manual_seed(4))
    greedy = CaptionGenerator(model, suppress=[0, 1, 2, 4, 5]).generate(
        images.numpy(), strategy=BeamSearch(1), max_length=6
    )
    for i, captions in enumerate(greedy):
        ids, logp = [2], 0.0
        with torch.no_grad():
            for _ in range(7):
                logits = model(images[i, None], torch.tensor([ids]))[0, -1]
                logits[[0, 1, 2, 4, 5]] = -torch.inf
                word = int(logits.argmax())
                logp += float(logits.log_softmax(-1)[word])
                ids.append(word)
                if word == 3 or len(ids) == 7:
                    break
        assert captions[0].ids == [w for w in ids[1:] if w != 3]
        assert captions[0].log_prob == pytest.approx(logp, abs=1e-4)
    wide = CaptionGenerator(model, suppress=[0, 1, 2, 4, 5]).generate(
        images.numpy(), strategy=BeamSearch(4, alpha=0.0), max_length=6
    )
    assert all(
        b[0].log_prob >= g[0].log_prob - 1e-5 for b, g in zip(wide, greedy, strict=True) if b[0].ended == g[0].ended
    )


@pytest.mark.parametrize("kind", MODELS)
def test_sampled_captions_do_not_depend_on_the_batch(kind):
    model, images = build_captioner(kind), random_images(3).numpy()
    sampling = Sampling(1.0, seed=5)
    together = CaptionGenerator(model).generate(images, strategy=sampling, max_length=6)
    assert together[0][0].ids == CaptionGenerator(model).generate(images[:1], strategy=sampling, max_length=6)[0][0].ids


def test_the_backbone_treats_images_independently():
    torch.manual_seed(0)
    backbone, images = ConvBackbone((8, 16), 11).eval(), random_images(3)
    with torch.no_grad():
        torch.testing.assert_close(backbone(images)[1], backbone(images[1:2])[0], atol=1e-5, rtol=1e-5)
    assert backbone(images).shape == (3, 5, 7, 11)


@pytest.mark.parametrize("shape", [(2, 3, 20, 20), (2, 20, 20), (1, 3, 20, 3)])
def test_a_tensor_that_is_not_an_image_is_an_error(shape):
    with pytest.raises(UserError, match="images must have shape"):
        ConvBackbone((8, 16), 11)(torch.zeros(shape))


def test_a_mechanism_without_cross_attention_is_an_error():
    with pytest.raises(UserError, match="does not support cross-attention"):
        rnn_captioner.RNNCaptionerConfig(**SMALL, mechanism="synthesizer-dense").build(23)


@pytest.mark.parametrize(
    ("mechanism", "positions"),
    [("dot", "axial"), ("local-2d:window=2", "none"), ("relative", "none"), ("dot", "rotary")],
)
def test_images_are_classified_with_spatial_self_attention(mechanism, positions):
    torch.manual_seed(0)
    model = ImageClassifier(
        3, channels=(8, 12), dim=16, layers=1, heads=2, mechanism=mechanism, positions=positions
    ).eval()
    with record(model) as recording:
        logits = model(random_images(2)).logits
    assert logits.shape == (2, 3)
    spatial, pooled = recording.calls[0].weights, recording.calls[-1].weights
    assert spatial.shape[-2] == 35
    torch.testing.assert_close(spatial.sum(-1), torch.ones(spatial.shape[:-1]))
    assert pooled.shape == (2, 1, 1, 35)


def test_an_image_of_height_one_is_a_sequence():
    """Spatial self-attention on a grid of one row equals attention on a sequence."""
    from regard.models.image_encoder import ImageEncoder

    torch.manual_seed(0)
    encoder = ImageEncoder((8,), 16, layers=2, heads=2, positions="rotary").eval()
    x = torch.randn(2, 9, 16)
    with torch.no_grad():
        for layer in encoder.layers:
            torch.testing.assert_close(layer(x, position_ids=Grid(1, 9)), layer(x), atol=1e-6, rtol=1e-5)
