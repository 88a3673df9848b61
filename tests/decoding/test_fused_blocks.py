"""Fused blocks compute the same as their parts one after the other."""

from __future__ import annotations

import copy
import gc
import pickle

import pytest
import torch
from torch import Tensor

from regard import kernels
from regard.decoding import BatchTranslator, BeamSearch, causal_decoders
from regard.decoding.causal_decoders import build_causal_decoder
from regard.decoding.seq2seq_decoders import OptimizedSeq2SeqDecoder
from regard.layers import FeedForward, MultiHeadAttention
from regard.models import gpt, transformer

pytestmark = pytest.mark.skipif(
    kernels.kernels is None or not kernels.kernels.lanes(0), reason="no kernel for products on this machine"
)

SOURCES = [[7, 8, 9, 11, 12, 3], [10, 3], [13, 14, 15, 3]]


def model(**changed: object) -> transformer.Transformer:
    torch.manual_seed(0)
    made = transformer.Transformer(
        67, transformer.TransformerConfig(**{"dim": 44, "hidden": 29, "heads": 2} | changed)
    ).eval()  # type: ignore[arg-type]
    with torch.no_grad():
        for p in made.parameters():
            p.add_(0.2 * torch.randn_like(p))
    return made


def decoder_of(translator: BatchTranslator) -> OptimizedSeq2SeqDecoder:
    assert isinstance(translator._decoder, OptimizedSeq2SeqDecoder)
    return translator._decoder


def run_steps(decoder: OptimizedSeq2SeqDecoder, fused: bool) -> list[Tensor]:
    """The logits of three steps of beams that part, after one of the sentences was left behind."""
    source = torch.tensor([text + [0] * (6 - len(text)) for text in SOURCES])
    kept, decoder.fused = decoder.fused, decoder.fused if fused else None
    try:
        with torch.inference_mode():
            found = [decoder.start(source, source > 0, 2, 9, 3)]
            words, parents = torch.tensor([[5, 6, 7]] * 3), torch.zeros(3, 3, dtype=torch.long)
            found.append(decoder.step(words, parents))
            found.append(decoder.step(words + 9, torch.tensor([[0, 0, 2], [1, 2, 0], [2, 2, 2]])))
            decoder.select(torch.tensor([0, 2]))
            found.append(decoder.step(words[:2], torch.tensor([[1, 1, 0], [0, 2, 1]])))
    finally:
        decoder.fused = kept
    return found


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("positions", ["sinusoidal", "rotary"])
@pytest.mark.parametrize("threads", [1, 2])
def test_fused_blocks_equal_single_parts(norm: str, positions: str, threads: int):
    was = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        decoder = decoder_of(BatchTranslator(model(norm=norm, positions=positions)))
        assert decoder.fused is not None
        for one, other in zip(run_steps(decoder, True), run_steps(decoder, False), strict=True):
            torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)
    finally:
        torch.set_num_threads(was)


def test_wide_rows():
    decoder = decoder_of(BatchTranslator(model(dim=1024, hidden=1024, heads=4, layers=1)))
    for one, other in zip(run_steps(decoder, True), run_steps(decoder, False), strict=True):
        torch.testing.assert_close(one, other, atol=2e-3, rtol=1e-3)


def test_input_is_not_changed(monkeypatch: pytest.MonkeyPatch):
    decoder = decoder_of(BatchTranslator(model()))
    assert decoder.fused is not None
    given: list[tuple[Tensor, Tensor]] = []
    step = decoder.fused.step
    monkeypatch.setattr(decoder.fused, "step", lambda x, *rest: given.append((x, x.clone())) or step(x, *rest))
    run_steps(decoder, True)
    assert len(given) == 4
    assert all(torch.equal(x, before) for x, before in given)


def test_other_activations_are_not_fused():
    made = model()
    made.decoder[0].ffn.activation = torch.nn.functional.silu
    assert decoder_of(BatchTranslator(made)).fused is None


@pytest.mark.parametrize("norm", ["pre", "post"])
@pytest.mark.parametrize("precision", ["float16", "int8"])
def test_fused_blocks_with_quantized_weights(norm: str, precision: str):
    if precision == "int8" and not kernels.can_multiply_int8(torch.zeros(1)):
        pytest.skip("no kernel for eight bits on this processor")
    decoder = decoder_of(BatchTranslator(model(norm=norm, hidden=130), precision=precision))
    assert decoder.fused is not None
    for one, other in zip(run_steps(decoder, True), run_steps(decoder, False), strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


def test_plan_has_the_size_that_the_kernel_reads():
    """A field that is missing on one side shifts all behind it."""
    decoder = decoder_of(BatchTranslator(model()))
    assert decoder.fused is not None
    room = kernels.kernels.block_room(decoder.fused.addresses[0], 3, 0, 1)  # type: ignore[union-attr]
    assert room == 3 * (3 * 44 + 44 + 3 * 44 + 44 + 29)
    assert decoder.fused.plans.dtype.itemsize == kernels.kernels.PLAN  # type: ignore[union-attr]


@pytest.mark.parametrize("positions", ["learned", "rotary"])
@pytest.mark.parametrize("precision", ["float32", "float16"])
@pytest.mark.parametrize("threads", [1, 2])
def test_fused_gpt_equals_single_parts(positions: str, precision: str, threads: int):
    torch.manual_seed(0)
    made = gpt.GPT(67, gpt.GPTConfig(44, 2, 2, positions=positions)).eval()
    with torch.no_grad():
        for p in made.parameters():
            p.add_(0.2 * torch.randn_like(p))
    was, found = torch.get_num_threads(), []
    torch.set_num_threads(threads)
    try:
        for fused in (True, False):
            decoder = build_causal_decoder(made, precision=precision)
            assert isinstance(decoder, causal_decoders.OptimizedDecoder)
            assert decoder.fused is not None
            decoder.fused = decoder.fused if fused else None
            with torch.inference_mode():
                said = [decoder.prefill([[7, 8, 9], [10]], 9), decoder.step(torch.tensor([11, 12]))]
                decoder.select(torch.tensor([1, 0, 1]))
                found.append([*said, decoder.step(torch.tensor([5, 6, 7])), decoder.step(torch.tensor([5, 6, 7]))])
    finally:
        torch.set_num_threads(was)
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


def test_different_blocks_are_not_fused():
    wide, plain, split = model(), model(positions="rotary"), model(heads=4, dim=64)
    wide.decoder[1].ffn = FeedForward(44, 400, activation=torch.nn.functional.relu)
    plain.decoder[1].attention = MultiHeadAttention(44, 2)
    split.decoder[0].cross_attention = MultiHeadAttention(64, 8)
    assert [decoder_of(BatchTranslator(made.eval())).fused for made in (wide, plain, split)] == [None] * 3


def test_a_deep_copy_has_its_own_weights():
    made = model(norm="pre")
    first = BatchTranslator(made)
    wanted = run_steps(decoder_of(first), True)
    other, stored = copy.deepcopy(first), pickle.dumps(first)
    made.share_memory()  # moves what the model holds
    del made, first
    gc.collect()
    for one in (other, pickle.loads(stored)):
        for found, said in zip(run_steps(decoder_of(one), True), wanted, strict=True):
            assert torch.equal(found, said)


def test_rows_of_another_width_raise():
    with pytest.raises(ValueError, match="40 inputs, got rows of 3"):
        kernels.KernelLinear(torch.zeros(2, 40), None)(torch.zeros(1, 3))


def test_modules_in_training_mode_are_evaluated():
    made = model(mechanism="bare", dropout=0.5)
    made.decoder.train()
    translator = BatchTranslator(made)
    assert len({tuple(translator.translate([[7, 8, 3]], max_length=8)[0][0].ids) for _ in range(4)}) == 1
    assert made.training is False


def test_beam_search_is_equal_with_one_and_two_threads():
    made = model(positions="rotary", norm="pre")
    was, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            said = BatchTranslator(made).translate(SOURCES, strategy=BeamSearch(4), max_length=12)
            found.append([one[0].ids for one in said])
    finally:
        torch.set_num_threads(was)
    assert found[0] == found[1]
