"""To a folder and back: weights bit by bit, outputs equal; and a clear message for each folder that cannot be taken."""

import json
import shutil
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny_hf import saved, shaken, transformers, words

from regard.errors import UserError
from regard.hub import load_folder, save_folder
from regard.models import bert, gpt, marian, t5

V = 37
BERT = transformers.BertConfig(
    hidden_size=12, num_hidden_layers=2, num_attention_heads=3, intermediate_size=20, vocab_size=V
)
GPT2 = transformers.GPT2Config(
    n_embd=12, n_layer=2, n_head=3, n_positions=17, vocab_size=V, bos_token_id=1, eos_token_id=2
)
MARIAN = transformers.MarianConfig(
    d_model=12,
    encoder_layers=2,
    decoder_layers=1,
    encoder_ffn_dim=20,
    decoder_ffn_dim=20,
    encoder_attention_heads=3,
    decoder_attention_heads=3,
    max_position_embeddings=19,
    vocab_size=V,
    pad_token_id=0,
    decoder_start_token_id=0,
    eos_token_id=1,
    forced_eos_token_id=1,
)


def t5_config(**more):
    sizes = {
        "d_model": 12,
        "d_kv": 64,
        "d_ff": 20,
        "num_layers": 2,
        "num_heads": 3,
        "vocab_size": V,
        "decoder_start_token_id": 0,
    }
    return transformers.T5Config(**{**sizes, **more})


CASES = {
    "BertModel": (transformers.BertModel, BERT),
    "BertForPreTraining": (transformers.BertForPreTraining, BERT),
    "BertForMaskedLM": (transformers.BertForMaskedLM, BERT),
    "GPT2Model": (transformers.GPT2Model, GPT2),
    "GPT2LMHeadModel": (transformers.GPT2LMHeadModel, GPT2),
    "MarianMTModel": (transformers.MarianMTModel, MARIAN),
    "T5 1.0": (transformers.T5ForConditionalGeneration, t5_config()),
    "T5 1.1": (
        transformers.T5ForConditionalGeneration,
        t5_config(feed_forward_proj="gated-gelu", tie_word_embeddings=False),
    ),
}


def run(model):
    ids = words(0, 2, 7, V)
    more = {"decoder_input_ids": words(1, 2, 5, V)} if model.config.is_encoder_decoder else {}
    with torch.no_grad():
        return model(input_ids=ids, **more)[0]


@pytest.mark.parametrize("case", CASES)
def test_there_and_back(tmp_path, case):
    cls, config = CASES[case]
    theirs = shaken(cls(config))
    saved(theirs, tmp_path / "a")
    model, _, info = load_folder(tmp_path / "a")
    save_folder(model, tmp_path / "b", info=info)
    first, second = load_file(tmp_path / "a/model.safetensors"), load_file(tmp_path / "b/model.safetensors")
    assert set(second) - set(first) <= {"lm_head.weight"}  # T5 1.1 writes its head even where it is equal to E
    for name, tensor in first.items():
        assert torch.equal(second[name], tensor), name
    again = cls.from_pretrained(tmp_path / "b").eval()
    assert torch.equal(run(again), run(theirs))


def test_t5_with_a_root_that_is_no_power_of_two_comes_back_within_one_unit_in_the_last_place(tmp_path):
    saved(shaken(transformers.T5ForConditionalGeneration(t5_config(d_kv=7))), tmp_path / "a")
    model, _, info = load_folder(tmp_path / "a")
    save_folder(model, tmp_path / "b", info=info)
    first, second = load_file(tmp_path / "a/model.safetensors"), load_file(tmp_path / "b/model.safetensors")
    for name, tensor in first.items():
        if name.endswith("Attention.q.weight"):
            apart = (tensor.view(torch.int32) - second[name].view(torch.int32)).abs().max()
            assert apart <= 1
        else:
            assert torch.equal(tensor, second[name])


@pytest.mark.parametrize(
    ("cls", "config", "hf"),
    [
        (bert.BERT, bert.BERTConfig(dim=12, hidden=20, layers=2, heads=3, dropout=0.0), "BertForPreTraining"),
        (gpt.GPT, gpt.GPTConfig(dim=12, layers=2, heads=3), "GPT2LMHeadModel"),
        (marian.Marian, marian.MarianConfig(dim=12, hidden=20, layers=2, heads=3), "MarianMTModel"),
        (t5.T5, t5.T5Config(dim=12, hidden=20, layers=2, heads=3), "T5ForConditionalGeneration"),
    ],
)
def test_a_saved_model_loads_in_transformers(tmp_path, cls, config, hf):
    ours = shaken(cls(V, config))
    save_folder(ours, tmp_path / "a")
    theirs = getattr(transformers, hf).from_pretrained(tmp_path / "a").eval()
    ids, target = words(0, 2, 7, V), words(1, 2, 5, V)
    with torch.no_grad():
        got = ours(ids, target) if theirs.config.is_encoder_decoder else ours(ids)
    torch.testing.assert_close(got[0] if isinstance(got, tuple) else got, run(theirs), atol=1e-5, rtol=1e-5)
    again, _, info = load_folder(tmp_path / "a")
    assert info.new == [] == info.skipped
    # A side's layers are said in full there, also where they are as many as the other's.
    assert again.config == (replace(config, decoder_layers=2) if theirs.config.is_encoder_decoder else config)
    for name, parameter in again.named_parameters():
        assert torch.equal(parameter, dict(ours.named_parameters())[name]), name


def test_shards(tmp_path):
    theirs = shaken(transformers.BertForPreTraining(BERT))
    theirs.save_pretrained(tmp_path / "a", max_shard_size="2KB")
    assert len(list((tmp_path / "a").glob("model-*.safetensors"))) > 2
    model, _, info = load_folder(tmp_path / "a")
    assert info.new == []
    with torch.no_grad():
        torch.testing.assert_close(model(words(0, 2, 7, V))[0], run(theirs), atol=1e-5, rtol=1e-5)
    next(iter((tmp_path / "a").glob("model-*.safetensors"))).unlink()
    with pytest.raises(UserError, match="is missing"):
        load_folder(tmp_path / "a")


@pytest.fixture
def folder(tmp_path):
    return saved(shaken(transformers.GPT2LMHeadModel(GPT2)), tmp_path / "gpt2")


def change(folder, **more):
    file = folder / "config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **more}))


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"model_type": "llama"}, "'llama' cannot be imported; known: bert, gpt2, marian, t5"),
        ({"model_type": None}, "None cannot be imported; known: bert, gpt2, marian, t5"),
        ({"n_embd": "wide"}, "'n_embd' must be a whole number"),
        ({"n_embd": 24}, "do not fit its config.json"),
        ({"activation_function": "mish"}, "use one of gelu"),
        ({"scale_attn_by_inverse_layer_idx": True}, "only False: "),
    ],
)
def test_a_config_that_cannot_be_taken(folder, more, message):
    change(folder, **more)
    with pytest.raises(UserError, match=message):
        load_folder(folder)


def test_files_that_cannot_be_read(folder, tmp_path):
    with pytest.raises(UserError, match=r"no config\.json"):
        load_folder(tmp_path / "nowhere")
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[:1000])
    with pytest.raises(UserError, match="cannot be read"):
        load_folder(folder)
    shutil.move(folder / "model.safetensors", folder / "pytorch_model.bin")
    with pytest.raises(UserError, match="a pickle"):
        load_folder(folder)
    (folder / "pytorch_model.bin").unlink()
    with pytest.raises(UserError, match=r"has no model\.safetensors"):
        load_folder(folder)
    index = {"weight_map": {"a": "../gpt2/model.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(UserError, match="not a file of this folder"):
        load_folder(folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(UserError, match="JSON"):
        load_folder(folder)


def test_a_head_that_should_be_tied_and_is_not(folder):
    state = load_file(folder / "model.safetensors")
    save_file({**state, "lm_head.weight": state["transformer.wte.weight"] + 1}, folder / "model.safetensors")
    with pytest.raises(UserError, match=r"lm_head\.weight differs"):
        load_folder(folder)
    save_file({**state, "lm_head.weight": state["transformer.wte.weight"].clone()}, folder / "model.safetensors")
    assert "lm_head.weight" in load_folder(folder)[2].loaded


def test_missing_and_unknown_tensors_are_said(folder):
    state = load_file(folder / "model.safetensors")
    del state["transformer.h.1.mlp.c_fc.weight"]
    state["transformer.h.0.attn.masked_bias"] = torch.zeros(1)
    save_file(state, folder / "model.safetensors")
    info = load_folder(folder)[2]
    assert info.new == ["layers.1.ffn.up.weight"]
    assert info.skipped == ["transformer.h.0.attn.masked_bias"]
    assert "layers.1.ffn.up.weight" in str(info)
    assert "masked_bias" in str(info)


def test_half_precision_is_kept_as_float32(folder):
    state = {name: tensor.half() for name, tensor in load_file(folder / "model.safetensors").items()}
    save_file(state, folder / "model.safetensors")
    model, _, info = load_folder(folder)
    assert {p.dtype for p in model.parameters()} == {torch.float32}
    assert torch.equal(model.embed.weight, state["transformer.wte.weight"].float())
    assert "float16" in str(info)


def test_what_has_no_counterpart_and_what_would_be_overwritten(folder):
    model, _, _ = load_folder(folder)
    with pytest.raises(UserError, match="not an empty folder"):
        save_folder(model, folder)
    with pytest.raises(UserError, match="cannot be saved as a Hugging Face model"):
        save_folder(torch.nn.Linear(1, 1), folder.parent / "new")
    rotary = gpt.GPT(V, dim=12, layers=1, heads=3, positions="rotary")
    with pytest.raises(UserError, match="rotary"):
        save_folder(rotary, folder.parent / "new")
    assert not (folder.parent / "new").exists()


def test_the_tokenizer_is_found_and_copied(folder):
    (folder / "tokenizer.json").write_text("{}")
    model, tokenizer, info = load_folder(folder)
    assert tokenizer == folder / "tokenizer.json"
    assert (save_folder(model, folder.parent / "b", info=info, tokenizer=tokenizer) / "tokenizer.json").is_file()
