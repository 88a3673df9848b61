"""Marian equals Hugging Face's at random weights: both sides' states, logits, own and cross attention, cache."""

import pytest
import torch
from tiny_hf import (
    assert_all_close,
    assert_every_parameter_matters,
    outputs_of,
    real,
    rows,
    saved,
    shaken,
    transformers,
    words,
)

from regard.hub import load_folder
from regard.inspect import record

VOCAB, M, N = 37, 11, 7
SOURCE, TARGET = words(0, 3, M, VOCAB), words(1, 3, N, VOCAB)
SOURCE_MASK, TARGET_MASK = real([11, 7, 3], M), real([5, 7, 2], N)


def pair(folder, cls=None, **more):
    sizes = {"d_model": 42, "encoder_layers": 3, "decoder_layers": 2, "encoder_ffn_dim": 29, "decoder_ffn_dim": 29}
    heads = {"encoder_attention_heads": 7, "decoder_attention_heads": 7, "max_position_embeddings": 19}
    ids = {
        "vocab_size": VOCAB,
        "pad_token_id": 0,
        "decoder_start_token_id": 0,
        "eos_token_id": 1,
        "forced_eos_token_id": 1,
    }
    config = transformers.MarianConfig(**sizes, **heads, **ids, **more, attn_implementation="eager")
    theirs = shaken((cls or transformers.MarianMTModel)(config))
    ours, _, info = load_folder(saved(theirs, folder))
    return ours, theirs, info


@pytest.mark.parametrize("more", [{}, {"scale_embedding": True, "activation_function": "swish"}])
def test_states_logits_and_attention(tmp_path, more):
    ours, theirs, info = pair(tmp_path, **more)
    masks = {"source_mask": SOURCE_MASK, "target_mask": TARGET_MASK}
    with torch.no_grad():
        want = theirs(
            input_ids=SOURCE,
            attention_mask=SOURCE_MASK.long(),
            decoder_input_ids=TARGET,
            decoder_attention_mask=TARGET_MASK.long(),
            output_hidden_states=True,
            output_attentions=True,
        )
        with record(ours) as seen:
            read = outputs_of(ours.encoder, lambda: ours(SOURCE, TARGET, **masks))
        written = outputs_of(ours.decoder, lambda: ours(SOURCE, TARGET, **masks))
        assert_all_close([ours(SOURCE, TARGET, **masks)[TARGET_MASK]], [want.logits[TARGET_MASK]])
        assert_every_parameter_matters(ours, lambda: [ours(SOURCE, TARGET, **masks)])
    assert_all_close([h[SOURCE_MASK] for h in read], [h[SOURCE_MASK] for h in want.encoder_hidden_states[1:]])
    assert_all_close([h[TARGET_MASK] for h in written], [h[TARGET_MASK] for h in want.decoder_hidden_states[1:]])
    for sites, mask, weights in [
        ("encoder.{}.attention.attend", SOURCE_MASK, want.encoder_attentions),
        ("decoder.{}.attention.attend", TARGET_MASK, want.decoder_attentions),
        ("decoder.{}.cross_attention.attend", TARGET_MASK, want.cross_attentions),
    ]:
        own = [rows(seen[sites.format(i)], mask) for i in range(len(weights))]
        assert_all_close(own, [rows(w, mask) for w in weights])
    assert len(seen.layers) == 3 + 2 + 2
    assert info.skipped == [] == info.new


def test_the_bias_of_the_logits_is_taken(tmp_path):
    ours, theirs, _ = pair(tmp_path)
    assert theirs.final_logits_bias.abs().max() > 0.1
    assert torch.equal(ours.bias, theirs.final_logits_bias[0])


def test_steps_with_cache_equal_all_at_once(tmp_path):
    ours, theirs, _ = pair(tmp_path)
    with torch.no_grad():
        want = theirs(input_ids=SOURCE, attention_mask=SOURCE_MASK.long(), decoder_input_ids=TARGET).logits
        source = ours.project_source(ours.encode(SOURCE, mask=SOURCE_MASK), mask=SOURCE_MASK)
        past, got = None, []
        for t in range(N):
            logits, past = ours.step(TARGET[:, t : t + 1], past, source)
            got.append(logits)
    assert_all_close([torch.cat(got, 1)], [want])


def test_a_bare_model(tmp_path):
    ours, theirs, info = pair(tmp_path, transformers.MarianModel)
    with torch.no_grad():
        want = theirs(input_ids=SOURCE, attention_mask=SOURCE_MASK.long(), decoder_input_ids=TARGET)
        assert_all_close(
            [ours.encode(SOURCE, mask=SOURCE_MASK)[SOURCE_MASK]], [want.encoder_last_hidden_state[SOURCE_MASK]]
        )
    assert info.new == ["bias"]
