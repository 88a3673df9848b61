"""T5 equals Hugging Face's at random weights, 1.0 and 1.1: states, logits, own and cross attention, cache."""

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

VOCAB, M, N = 37, 150, 23  # long enough to reach the shared buckets and the last one
SOURCE, TARGET = words(0, 3, M, VOCAB), words(1, 3, N, VOCAB)
SOURCE_MASK, TARGET_MASK = real([150, 77, 3], M), real([5, 23, 2], N)
OLD, NEW = {}, {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
MIXED = {"feed_forward_proj": "gated-gelu"}


def pair(folder, **more):
    sizes = {
        "d_model": 21,
        "d_kv": 16,
        "d_ff": 29,
        "num_layers": 3,
        "num_decoder_layers": 2,
        "num_heads": 5,
        "vocab_size": VOCAB,
    }
    config = transformers.T5Config(**{**sizes, **more}, decoder_start_token_id=0, attn_implementation="eager")
    theirs = shaken(transformers.T5ForConditionalGeneration(config), by=0.1)
    with torch.no_grad():  # logits of order one: at 20 their own two kernels differ by 2e-5 in float32
        theirs.shared.weight.mul_(0.2)
    ours, _, info = load_folder(saved(theirs, folder))
    return ours, theirs, info


@pytest.mark.parametrize("more", [OLD, NEW, MIXED, {"d_kv": 7}], ids=["1.0", "1.1", "gated and tied", "odd width"])
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
        read[-1], written[-1] = ours.encoder_norm(read[-1]), ours.decoder_norm(written[-1])
        assert_all_close([ours(SOURCE, TARGET, **masks)[TARGET_MASK]], [want.logits[TARGET_MASK]])
        assert_every_parameter_matters(ours, lambda: [ours(SOURCE[:, :20], TARGET)])
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


@pytest.mark.parametrize("more", [OLD, NEW], ids=["1.0", "1.1"])
def test_steps_with_cache_equal_all_at_once(tmp_path, more):
    ours, theirs, _ = pair(tmp_path, **more)
    with torch.no_grad():
        want = theirs(input_ids=SOURCE, attention_mask=SOURCE_MASK.long(), decoder_input_ids=TARGET).logits
        source = ours.project_source(ours.encode(SOURCE, mask=SOURCE_MASK), mask=SOURCE_MASK)
        past, got = None, []
        for t in range(N):
            logits, past = ours.step(TARGET[:, t : t + 1], past, source)
            got.append(logits)
    assert_all_close([torch.cat(got, 1)], [want])


def test_a_head_of_its_own(tmp_path):
    """As the published 1.1 files have it: another matrix in lm_head.weight, and a config that says so."""
    import json

    from safetensors.torch import load_file, save_file

    _, theirs, _ = pair(tmp_path, **NEW)
    state = load_file(tmp_path / "model.safetensors")
    state["lm_head.weight"] = 0.2 * torch.randn(VOCAB, 21, generator=torch.Generator().manual_seed(5))
    save_file(state, tmp_path / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((tmp_path / "config.json").read_text())
    config.pop("scale_decoder_outputs")
    (tmp_path / "config.json").write_text(json.dumps({**config, "tie_word_embeddings": False}))
    ours, _, info = load_folder(tmp_path)
    with torch.no_grad():
        states = theirs(input_ids=SOURCE, decoder_input_ids=TARGET, output_hidden_states=True).decoder_hidden_states[-1]
        assert_all_close([ours(SOURCE, TARGET)], [states @ state["lm_head.weight"].t()])
    assert info.skipped == [] == info.new
