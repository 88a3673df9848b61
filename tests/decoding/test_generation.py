"""Generation: batches, caches and seeds do not change a text."""

from __future__ import annotations

import itertools

import pytest
import torch

from regard.decoding import GREEDY, Sampling, TextGenerator, generate
from regard.decoding.causal_decoders import CachedDecoder, OptimizedDecoder, UncachedDecoder, build_causal_decoder
from regard.decoding.context_window import max_positions, window_start
from regard.errors import UserError
from regard.inspect import ablate, edit, record
from regard.models import causal_cnn, gpt

VOCAB = 61
PROMPTS = [[7, 8, 9, 10, 11], [12], [13, 14, 15, 16, 17, 18, 19, 20, 21], [22, 23]]
DRAWN = Sampling(temperature=0.9, top_k=20, top_p=0.95, seed=5)


def model(mechanism: str = "dot", positions: str = "learned:length=64", **more) -> gpt.GPT:
    """Shaken, so that attention is not nearly uniform and words are not nearly equal."""
    torch.manual_seed(0)
    made = gpt.GPT(VOCAB, gpt.GPTConfig(42, 2, 3, 29, mechanism, positions, **more))
    with torch.no_grad():
        for p in made.parameters():
            p.add_(0.25 * torch.randn_like(p))
    return made.eval()


def ids(written) -> list[list[int]]:
    return [sample.ids for samples in written for sample in samples]


WAYS = [
    *[("dot", p) for p in ("learned:length=64", "sinusoidal", "rotary", "alibi", "t5", "none")],
    *[(m, "learned:length=64") for m in ("additive", "local:window=4", "relative", "synthesizer-random:length=64")],
    ("local:window=4", "rotary"),
]


@pytest.mark.parametrize(("mechanism", "positions"), WAYS)
def test_batch_and_cache_do_not_change_the_text(mechanism, positions):
    net = model(mechanism, positions)
    for sampling in (GREEDY, DRAWN):
        how = {"max_new_tokens": 8, "sampling": sampling, "stop_ids": ()}
        together = ids(generate(net, PROMPTS, **how))
        assert len({tuple(text) for text in together}) >= 3
        for prompt, text in zip(PROMPTS, together, strict=True):
            assert ids(generate(net, [prompt], **how)) == [text]
            assert ids(generate(net, [prompt], cache=False, **how)) == [text]


@pytest.mark.parametrize(("mechanism", "positions"), WAYS)
@torch.inference_mode()
def test_all_decoders_give_the_same_logits(mechanism, positions):
    net = model(mechanism, positions)
    decoders = [UncachedDecoder(net), CachedDecoder(net), build_causal_decoder(net)]
    assert isinstance(decoders[2], OptimizedDecoder if mechanism == "dot" else CachedDecoder)
    for texts in (PROMPTS, [[3, 4, 5], [6, 7, 8]]):
        words = torch.tensor([[25, 30, 35, 40, 45, 50][i : i + len(texts)] for i in range(3)])
        rows = torch.tensor([1, 0, 1])
        seen = []
        for decoder in decoders:
            out = [decoder.prefill(texts, 8)] + [decoder.step(w) for w in words]
            decoder.select(rows)
            out += [decoder.step(w[rows]) for w in words]
            seen.append(torch.cat(out))
        torch.testing.assert_close(seen[1], seen[0], atol=2e-4, rtol=1e-4)
        torch.testing.assert_close(seen[2], seen[0], atol=2e-4, rtol=1e-4)


@torch.inference_mode()
def test_a_cache_with_too_little_capacity_grows():
    net = model()
    small, large = build_causal_decoder(net), build_causal_decoder(net)
    small.prefill(PROMPTS, 1), large.prefill(PROMPTS, 20)
    for word in range(10, 20):
        ids_ = torch.full((len(PROMPTS),), word)
        a, b = small.step(ids_), large.step(ids_)
    torch.testing.assert_close(a, b)


def test_greedy_equals_hugging_face(monkeypatch):
    monkeypatch.setenv("TRANSFORMERS_VERBOSITY", "error")
    transformers = pytest.importorskip("transformers")
    from regard.hub.hf_gpt2 import GPT2_FAMILY

    torch.manual_seed(0)
    sizes = {"n_embd": 42, "n_layer": 2, "n_head": 3, "n_positions": 64}
    config = transformers.GPT2Config(vocab_size=VOCAB, **sizes, bos_token_id=None, eos_token_id=None, pad_token_id=0)
    theirs = transformers.GPT2LMHeadModel(config).eval()
    with torch.no_grad():
        for p in theirs.parameters():
            p.add_(0.2 * torch.randn_like(p))
    ours = GPT2_FAMILY.build_model(config.to_dict(), {})
    ours.load_state_dict(GPT2_FAMILY.to_regard(theirs.state_dict(), ours.config))
    prompt = torch.tensor([[5, 6, 7], [8, 9, 10]])
    wanted = theirs.generate(prompt, max_new_tokens=20, do_sample=False)[:, 3:].tolist()
    assert ids(generate(ours, prompt.tolist(), max_new_tokens=20, sampling=GREEDY, stop_ids=())) == wanted


def test_the_seed_determines_the_text():
    net = model()
    first = ids(generate(net, PROMPTS, max_new_tokens=16, sampling=DRAWN))
    assert ids(generate(net, PROMPTS, max_new_tokens=16, sampling=DRAWN)) == first
    assert ids(generate(net, PROMPTS[::-1], max_new_tokens=16, sampling=DRAWN)) == first[::-1]
    assert ids(generate(net, PROMPTS, max_new_tokens=16, sampling=Sampling(0.9, 20, 0.95, seed=6))) != first


def test_samples_of_a_prompt_differ_and_do_not_depend_on_their_number():
    net = model()
    three = generate(net, PROMPTS[:2], max_new_tokens=10, sampling=DRAWN, num_samples=3, stop_ids=())
    assert [len(samples) for samples in three] == [3, 3]
    assert len({tuple(text) for text in ids(three)}) == 6
    for prompt, samples in zip(PROMPTS, three, strict=False):
        two = generate(net, [prompt], max_new_tokens=10, sampling=DRAWN, num_samples=2, stop_ids=())[0]
        assert [s.ids for s in two] == [s.ids for s in samples[:2]]
        assert samples[0].prompt == prompt


def test_a_text_ends_at_a_stop_token_and_the_others_continue():
    net = model()
    free = generate(net, PROMPTS, max_new_tokens=30, sampling=DRAWN, num_samples=4, stop_ids=())
    stops = {free[0][0].ids[3], free[1][2].ids[8], free[3][1].ids[0]}
    stopped = generate(net, PROMPTS, max_new_tokens=30, sampling=DRAWN, num_samples=4, stop_ids=stops)
    ended = 0
    for whole, cut in zip(ids(free), (s for samples in stopped for s in samples), strict=True):
        first = next((i for i, word in enumerate(whole) if word in stops), None)
        assert cut.ids == whole[:first]
        assert cut.stopped == (first is not None)
        ended += cut.stopped
    assert ended >= 3


def test_on_token_is_called_when_a_token_is_chosen():
    heard: dict[tuple[int, int], list[int]] = {}
    order = []

    def hear(prompt: int, sample: int, word: int) -> None:
        heard.setdefault((prompt, sample), []).append(word)
        order.append((prompt, sample))

    written = generate(
        model(), PROMPTS[:2], max_new_tokens=6, sampling=DRAWN, num_samples=2, stop_ids=(), on_token=hear
    )
    assert heard == {(p, s): text.ids for p, samples in enumerate(written) for s, text in enumerate(samples)}
    assert order[:4] == [(0, 0), (0, 1), (1, 0), (1, 1)]  # a word of each, then the next


def test_suppressed_tokens_are_never_generated():
    net = model()
    never = set(range(0, VOCAB, 2))
    for sampling in (GREEDY, DRAWN, Sampling(2.0), Sampling(top_p=0.9)):
        written = ids(generate(net, PROMPTS, max_new_tokens=12, sampling=sampling, stop_ids=(), suppress=never))
        assert not {word for text in written for word in text} & never


def test_max_new_tokens_and_the_model_is_unchanged():
    net = model().train()
    written = generate(net, PROMPTS, max_new_tokens=1, stop_ids=())
    assert [len(text) for text in ids(written)] == [1] * 4
    assert net.training
    assert all(p.requires_grad for p in net.parameters())


@pytest.mark.parametrize("mechanism", ["dot", "additive"])
@pytest.mark.parametrize("sampling", [GREEDY, DRAWN], ids=["greedy", "drawn"])
def test_a_text_grows_beyond_the_maximum_length(mechanism, sampling):
    """Each text at its own moment, with a cache as without."""
    net = model(mechanism, "learned:length=16")
    assert max_positions(net) == 16
    written = generate(net, PROMPTS, max_new_tokens=40, sampling=sampling, stop_ids=())
    assert all(text.window_moved for samples in written for text in samples)
    for prompt, samples in zip(PROMPTS, written, strict=True):
        alone = generate(net, [prompt], max_new_tokens=40, sampling=sampling, stop_ids=(), cache=False)
        assert alone[0][0].ids == samples[0].ids
    assert not generate(net, PROMPTS[:1], max_new_tokens=11, stop_ids=())[0][0].window_moved
    assert generate(net, PROMPTS[:1], max_new_tokens=13, stop_ids=())[0][0].window_moved


def test_a_long_prompt_is_truncated_to_its_window():
    net = model("dot", "learned:length=16")
    prompt = [7 + i % 50 for i in range(100)]
    begin = window_start(100, 16)
    assert 8 <= 100 - begin <= 16
    written = generate(net, [prompt], max_new_tokens=3, sampling=GREEDY, stop_ids=())[0][0]
    assert written.window_moved
    assert written.ids == ids(generate(net, [prompt[begin:]], max_new_tokens=3, sampling=GREEDY, stop_ids=()))[0]


def test_the_window_moves_by_half_and_never_exceeds_the_maximum():
    for most in (1, 2, 7, 16):
        begins = [window_start(n, most) for n in range(1, 100)]
        assert all(0 < n - begin <= most for n, begin in zip(range(1, 100), begins, strict=True))
        assert all(b - a in (0, (most + 1) // 2) for a, b in itertools.pairwise(begins))
    assert window_start(1000, None) == 0


def test_ended_texts_do_not_exceed_the_maximum_length():
    """The longest ends first and stays in the batch for a while; its places must not be counted on."""
    net = model("dot", "learned:length=24")
    prompts, wild = [[7 + i for i in range(20)], *[[10 + i] for i in range(4)]], Sampling(5.0)
    free = ids(generate(net, prompts, max_new_tokens=8, sampling=wild, stop_ids=()))
    alone = [word for word in free[0][:3] if not any(word in text for text in free[1:])]
    assert alone, "a stop word that ends the first text and no other"
    written = ids(generate(net, prompts, max_new_tokens=8, sampling=wild, stop_ids=alone))
    assert len(written[0]) < 3
    assert written[1:] == free[1:]


def test_record_and_edit_work_during_generation():
    net = model()
    with record(net) as seen:
        generate(net, [[7, 8, 9]], max_new_tokens=4, sampling=GREEDY, stop_ids=())
    assert [call.weights.shape[2:] for call in seen.calls_of("layers.0.attention.attend")] == [
        (3, 3),
        (1, 4),
        (1, 5),
        (1, 6),
    ]
    plain = ids(generate(net, PROMPTS, max_new_tokens=8, sampling=GREEDY, stop_ids=()))
    with edit(net, "layers.1.attention.attend", ablate([0, 1, 2])):
        assert ids(generate(net, PROMPTS, max_new_tokens=8, sampling=GREEDY, stop_ids=())) != plain


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"prompts": []}, "no prompt"),
        ({"prompts": [[5], []]}, "empty"),
        ({"max_new_tokens": 0}, "max_new_tokens"),
        ({"num_samples": 0}, "num_samples"),
        ({"window": 0}, "window"),
        ({"precision": "int3"}, "int3.*float32"),
    ],
)
def test_invalid_generation_arguments(given, said):
    with pytest.raises(UserError, match=said):
        generate(model(), **{"prompts": [[5]], "max_new_tokens": 2, **given})


def test_quantized_precision_needs_an_optimized_decoder():
    for given in ({"model": model("additive")}, {"model": model(), "cache": False}):
        with pytest.raises(UserError, match="dot attention"):
            generate(prompts=[[5]], precision="float16", **given)


def test_a_generator_is_reusable_and_float16_is_close():
    net = model()
    writer = TextGenerator(net)
    for prompts in (PROMPTS, PROMPTS[:1], PROMPTS[1:]):
        written = writer.generate(prompts, max_new_tokens=9, sampling=DRAWN)
        assert ids(written) == ids(generate(net, prompts, max_new_tokens=9, sampling=DRAWN))
    half = TextGenerator(net, precision="float16")
    texts = [ids(w.generate(PROMPTS, max_new_tokens=9, sampling=GREEDY, stop_ids=())) for w in (writer, half)]
    same = [a == b for x, y in zip(*texts, strict=True) for a, b in zip(x, y, strict=True)]
    assert sum(same) / len(same) > 0.8


def test_a_convolutional_model_generates():
    torch.manual_seed(0)
    net = causal_cnn.CausalCNNConfig(dim=16, layers=3).build(VOCAB).eval()
    with torch.no_grad():
        for p in net.parameters():
            p.add_(0.3 * torch.randn_like(p))
    together = ids(generate(net, PROMPTS, max_new_tokens=7, sampling=DRAWN, stop_ids=()))
    assert together == [ids(generate(net, [p], max_new_tokens=7, sampling=DRAWN, stop_ids=()))[0] for p in PROMPTS]
    assert len({tuple(text) for text in together}) == 4
