"""BERT equals Hugging Face's at random weights: hidden states, heads, attention, with padding and segments."""

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
IDS, MASK = words(0, 3, N, VOCAB), real([11, 7, 3], N)
SEGMENTS = (torch.arange(N)[None] >= torch.tensor([5, 3, 1])[:, None]).long()


def config(**more):
    sizes = {
        "hidden_size": 21,
        "num_hidden_layers": 3,
        "num_attention_heads": 7,
        "intermediate_size": 29,
        "vocab_size": VOCAB,
    }
    return transformers.BertConfig(**sizes, max_position_embeddings=13, attn_implementation="eager", **more)


def pair(cls, folder, **more):
    theirs = shaken(cls(config(**more)))
    ours, _, info = load_folder(saved(theirs, folder))
    return ours, theirs, info


@pytest.mark.parametrize("activation", ["gelu", "relu", "gelu_new"])
def test_states_pooler_and_attention(tmp_path, activation):
    ours, theirs, info = pair(transformers.BertModel, tmp_path, hidden_act=activation)
    with torch.no_grad():
        want = theirs(IDS, MASK.long(), SEGMENTS, output_hidden_states=True, output_attentions=True)
        with record(ours) as seen:
            hidden = outputs_of(ours.layers, lambda: ours.hidden_states(IDS, mask=MASK, segments=SEGMENTS))
        assert_all_close([ours.pool(hidden[-1])], [want.pooler_output])
    assert_all_close([h[MASK] for h in hidden], [h[MASK] for h in want.hidden_states[1:]])
    assert seen.layers == [f"layers.{i}.attention.attend" for i in range(3)]
    assert_all_close([rows(c.weights, MASK) for c in seen.calls], [rows(w, MASK) for w in want.attentions])
    assert info.skipped == []
    assert {name.split(".")[0] for name in info.new} == {"mlm_dense", "mlm_norm", "mlm_bias", "next_sentence"}


def test_without_mask_and_segments(tmp_path):
    ours, theirs, _ = pair(transformers.BertModel, tmp_path)
    with torch.no_grad():
        assert_all_close([ours.hidden_states(IDS)], [theirs(IDS).last_hidden_state])


def test_masked_words_and_next_sentence(tmp_path):
    ours, theirs, info = pair(transformers.BertForPreTraining, tmp_path)
    with torch.no_grad():
        want = theirs(IDS, MASK.long(), SEGMENTS)
        got = ours(IDS, mask=MASK, segments=SEGMENTS)
        assert_all_close([got[0][MASK], got[1]], [want.prediction_logits[MASK], want.seq_relationship_logits])
        assert_every_parameter_matters(ours, lambda: ours(IDS, mask=MASK, segments=SEGMENTS))
    assert info.skipped == [] == info.new


def test_masked_words_alone(tmp_path):
    ours, theirs, info = pair(transformers.BertForMaskedLM, tmp_path)
    with torch.no_grad():
        assert_all_close([ours(IDS, mask=MASK)[0][MASK]], [theirs(IDS, MASK.long()).logits[MASK]])
    assert sorted(info.new) == ["next_sentence.bias", "next_sentence.weight", "pooler.bias", "pooler.weight"]


def test_of_a_classifier_the_encoder_and_pooler_are_taken(tmp_path):
    ours, theirs, info = pair(transformers.BertForSequenceClassification, tmp_path, num_labels=3)
    with torch.no_grad():
        want = theirs.bert(IDS, MASK.long())
        states = ours.hidden_states(IDS, mask=MASK)
        assert_all_close([states[MASK], ours.pool(states)], [want.last_hidden_state[MASK], want.pooler_output])
    assert info.skipped == ["classifier.bias", "classifier.weight"]
    assert "classifier.bias" in str(info)
    assert "mlm_bias" in str(info)
