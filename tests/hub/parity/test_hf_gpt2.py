"""GPT equals Hugging Face's GPT-2 at random weights: states, logits, attention, cache, padding on either side."""

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

N, VOCAB = 11, 37
IDS = words(0, 3, N, VOCAB)


def pair(folder, cls=None, **more):
    sizes = {
        "n_embd": 21,
        "n_layer": 3,
        "n_head": 7,
        "n_positions": 13,
        "vocab_size": VOCAB,
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    config = transformers.GPT2Config(**{**sizes, **more}, attn_implementation="eager")
    theirs = shaken((cls or transformers.GPT2LMHeadModel)(config))
    ours, _, info = load_folder(saved(theirs, folder))
    return ours, theirs, info


@pytest.mark.parametrize("more", [{}, {"activation_function": "gelu", "n_inner": 31}])
def test_states_logits_and_attention(tmp_path, more):
    ours, theirs, info = pair(tmp_path, **more)
    mask = real([11, 7, 3], N)
    with torch.no_grad():
        want = theirs(IDS, attention_mask=mask.long(), output_hidden_states=True, output_attentions=True)
        with record(ours) as seen:
            hidden = outputs_of(ours.layers, lambda: ours(IDS, mask=mask))
        assert_all_close(
            [h[mask] for h in (*hidden[:-1], ours.norm(hidden[-1]))], [h[mask] for h in want.hidden_states[1:]]
        )
        assert_all_close([ours(IDS, mask=mask)[mask]], [want.logits[mask]])
        assert_every_parameter_matters(ours, lambda: [ours(IDS)])
    assert_all_close([rows(c.weights, mask) for c in seen.calls], [rows(w, mask) for w in want.attentions])
    assert info.skipped == [] == info.new


def test_a_bare_model(tmp_path):
    ours, theirs, info = pair(tmp_path, transformers.GPT2Model)
    with torch.no_grad():
        assert_all_close([ours.hidden_states(IDS)], [theirs(IDS).last_hidden_state])
    assert info.bare
    assert info.new == []


def test_padding_on_the_left(tmp_path):
    ours, theirs, _ = pair(tmp_path)
    mask = real([11, 7, 3], N).flip(1)
    at = (mask.long().cumsum(1) - 1).clamp(min=0)
    with torch.no_grad():
        want = theirs(IDS, attention_mask=mask.long(), position_ids=at).logits
        assert_all_close([ours(IDS, mask=mask, position_ids=at)[mask]], [want[mask]])


def test_steps_with_cache_equal_all_at_once(tmp_path):
    ours, theirs, _ = pair(tmp_path)
    with torch.no_grad():
        want = theirs(IDS).logits
        past, got = None, []
        for start, stop in [(0, 4), (4, 5), (5, 6), (6, 9), (9, N)]:
            logits, past = ours.step(IDS[:, start:stop], past)
            got.append(logits)
    assert_all_close([torch.cat(got, 1)], [want])
    assert [len(memory) for memory in past] == [N] * 3
