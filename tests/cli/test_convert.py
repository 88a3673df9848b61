"""`regard import` and `regard export`: round trips of tiny random models of all four families, and folders that
cannot be imported or exported."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from regard.hub import load_folder
from regard.hub.imported_folder import load_imported

transformers = pytest.importorskip("transformers")
transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()

V = 37
SIDES = {"vocab_size": V, "pad_token_id": 0, "decoder_start_token_id": 0, "eos_token_id": 1}


def bert():
    sizes = {"hidden_size": 12, "num_hidden_layers": 2, "num_attention_heads": 3, "intermediate_size": 20}
    return transformers.BertForPreTraining(transformers.BertConfig(**sizes, vocab_size=V))


def gpt2():
    sizes = {"n_embd": 12, "n_layer": 2, "n_head": 3, "n_positions": 17}
    return transformers.GPT2LMHeadModel(transformers.GPT2Config(**sizes, vocab_size=V, bos_token_id=1, eos_token_id=2))


def marian():
    sizes = {"d_model": 12, "encoder_layers": 2, "decoder_layers": 1, "encoder_ffn_dim": 20, "decoder_ffn_dim": 20}
    heads = {"encoder_attention_heads": 3, "decoder_attention_heads": 3, "max_position_embeddings": 19}
    return transformers.MarianMTModel(transformers.MarianConfig(**sizes, **heads, **SIDES, forced_eos_token_id=1))


def t5(width: int = 16, **more):
    sizes = {"d_model": 12, "d_kv": width, "d_ff": 20, "num_layers": 2, "num_heads": 3}
    return transformers.T5ForConditionalGeneration(transformers.T5Config(**sizes, **SIDES, **more))


def gated_t5():
    return t5(feed_forward_proj="gated-gelu", tie_word_embeddings=False)


def add_noise(model):
    """Add noise to every weight except Marian's fixed table of positions."""
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for name, tensor in model.state_dict().items():
            if tensor.is_floating_point() and "embed_positions" not in name:
                tensor.add_(0.2 * torch.randn(tensor.shape, generator=generator))
    return model.eval()


def compute_output(model) -> Tensor:
    ids, target = torch.randint(1, V, (2, 2, 7), generator=torch.Generator().manual_seed(1))
    more = {"decoder_input_ids": target} if model.config.is_encoder_decoder else {}
    with torch.no_grad():
        return model(input_ids=ids, **more)[0]


def weights(folder: Path) -> dict[str, Tensor]:
    return load_file(folder / "model.safetensors")


@pytest.mark.parametrize("build", [bert, gpt2, marian, t5, gated_t5], ids=lambda build: build.__name__)
def test_there_and_back_weights_are_equal_bit_by_bit(build, cli, tmp_path):
    theirs = add_noise(build())
    theirs.save_pretrained(tmp_path / "hf")
    (tmp_path / "hf/tokenizer.json").write_text('{"a": 1}')
    code, out, err = cli("import", "hf", "--out", "ours")
    assert code == 0, err
    first = weights(tmp_path / "hf")
    assert f"{theirs.config.model_type}: {len(first)} tensors loaded" in out
    assert "not in the folder" not in out
    assert "not used" not in out

    opened, _ = load_imported(tmp_path / "ours")
    direct = load_folder(tmp_path / "hf")[0].state_dict()
    assert direct.keys() == opened.state_dict().keys()
    for name, tensor in opened.state_dict().items():
        assert torch.equal(tensor, direct[name]), name

    code, out, err = cli("export", "ours", "--out", "again")
    assert code == 0, err
    second = weights(tmp_path / "again")
    assert set(second) - set(first) <= {"lm_head.weight"}  # T5 1.1 writes its head even where it is equal to E
    for name, tensor in first.items():
        assert torch.equal(second[name], tensor), name
    for name in ("config.json", "tokenizer.json"):
        assert json.loads((tmp_path / "again" / name).read_text()) == json.loads((tmp_path / "hf" / name).read_text())
    assert torch.equal(compute_output(type(theirs).from_pretrained(tmp_path / "again").eval()), compute_output(theirs))


def test_t5_whose_root_is_no_power_of_two_comes_back_within_one_unit_in_the_last_place(cli, tmp_path):
    add_noise(t5(7)).save_pretrained(tmp_path / "hf")
    assert cli("import", "hf", "--out", "ours")[0] == 0
    assert cli("export", "ours", "--out", "again")[0] == 0
    first, second = weights(tmp_path / "hf"), weights(tmp_path / "again")
    for name, tensor in first.items():
        units = (tensor.view(torch.int32) - second[name].view(torch.int32)).abs().max()
        assert units <= (1 if name.endswith("Attention.q.weight") else 0), name


def test_import_reports_unused_and_missing_tensors(cli, tmp_path):
    sizes = {"hidden_size": 12, "num_hidden_layers": 1, "num_attention_heads": 3, "intermediate_size": 20}
    config = transformers.BertConfig(**sizes, vocab_size=V, num_labels=3)
    transformers.BertForSequenceClassification(config).save_pretrained(tmp_path / "hf")
    code, out, _ = cli("import", "hf", "--out", "ours")
    assert code == 0
    assert "2 not used: classifier.bias, classifier.weight" in out
    assert "7 not in the folder, initialized at random: mlm_bias" in out
    assert cli("export", "ours", "--out", "again")[0] == 0
    assert set(weights(tmp_path / "hf")) - set(weights(tmp_path / "again")) == {"classifier.bias", "classifier.weight"}
    assert not set(weights(tmp_path / "again")) - set(weights(tmp_path / "hf"))


@pytest.fixture(scope="module")
def folders(tmp_path_factory) -> Path:
    """hf, a GPT-2 of Hugging Face, and ours, the same imported."""
    from regard.hub.imported_folder import import_folder

    home = tmp_path_factory.mktemp("folders")
    add_noise(gpt2()).save_pretrained(home / "hf")
    import_folder(home / "hf", home / "ours")
    return home


def config(**more) -> Callable[[Path], None]:
    """Change config.json in hf."""

    def prepare(home: Path) -> None:
        file = home / "hf/config.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **more}))

    return prepare


def imported(**more) -> Callable[[Path], None]:
    """Change config.json in ours."""

    def prepare(home: Path) -> None:
        file = home / "ours/config.json"
        tree = json.loads(file.read_text())["imported"]
        file.write_text(json.dumps({"imported": {**tree, **more}}))

    return prepare


def cut(name: str) -> Callable[[Path], None]:
    def prepare(home: Path) -> None:
        file = home / name
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])

    return prepare


def narrow(home: Path) -> None:
    file = home / "ours/model.safetensors"
    save_file({name: tensor[:1].clone() for name, tensor in load_file(file).items()}, file)


def rename(home: Path) -> None:
    (home / "hf/model.safetensors").rename(home / "hf/pytorch_model.bin")


def strangers(home: Path) -> None:
    save_file({"layers.0.weight": torch.zeros(2)}, home / "hf/model.safetensors")


IMPORT, EXPORT = "import hf --out new", "export ours --out new"
BAD = {
    "no such folder": ("import nowhere --out new", None, "no config.json"),
    "a file": ("import reviews.csv --out new", None, "no config.json"),
    "a misspelt family": (IMPORT, config(model_type="gpt-2"), "did you mean 'gpt2'?"),
    "another family": (IMPORT, config(model_type="llama"), "cannot be imported; known: bert, gpt2, marian, t5"),
    "a family that is no name": (IMPORT, config(model_type=["gpt2"]), "model_type ['gpt2'] cannot be imported"),
    "a size that is none": (IMPORT, config(n_layer=0), "'n_layer' must be a whole number of 1 or more, not 0"),
    "a dropout that is none": (
        IMPORT,
        config(resid_pdrop="much"),
        "'resid_pdrop' must be a number from 0 to 1, not 'much'",
    ),
    "an unknown activation": (IMPORT, config(activation_function={"a": 1}), "is not supported; use one of gelu"),
    "heads that do not divide the width": (IMPORT, config(n_head=5), "heads=5 does not divide dim=12"),
    "another width": (IMPORT, config(n_embd=24), "do not fit its config.json"),
    "a config that is no JSON": (IMPORT, cut("hf/config.json"), "cannot be read as JSON"),
    "weights cut short": (IMPORT, cut("hf/model.safetensors"), "model.safetensors cannot be read"),
    "weights of something else": (IMPORT, strangers, "hf has no tensor of a gpt2 model"),
    "pickled weights": (IMPORT, rename, "unpickling can run any code"),
    "a folder that is taken": ("import hf --out ours", None, "not an empty folder; choose another name"),
    "no --out": ("import hf", None, "--out"),
    "export of a Hugging Face folder": ("export hf --out new", None, "not a folder that `regard import` wrote"),
    "export of nothing": ("export nowhere --out new", None, "not a folder that `regard import` wrote"),
    "export of another family": (EXPORT, imported(family="llama"), "config.json is damaged"),
    "export of another format": (EXPORT, imported(format=99), "has format 99, and this version of regard reads format"),
    "export of unknown settings": (
        EXPORT,
        imported(config={"width": 3}),
        "config.json is damaged",
    ),
    "export of weights cut short": (EXPORT, cut("ours/model.safetensors"), "model.safetensors cannot be read"),
    "export without weights": (EXPORT, lambda home: (home / "ours/model.safetensors").unlink(), "cannot be read"),
    "export of weights that do not fit": (EXPORT, narrow, "does not fit its config.json"),
    "export into a folder that is taken": ("export ours --out hf", None, "not an empty folder; choose another name"),
    "an imported model is no run": ("predict ours hello", None, "not the config.json of a regard run"),
}


@pytest.mark.parametrize("title", BAD)
def test_a_bad_folder_gets_one_message(title, cli, folders, tmp_path):
    command, prepare, message = BAD[title]
    for name in ("hf", "ours"):
        shutil.copytree(folders / name, tmp_path / name)
    if prepare is not None:
        prepare(tmp_path)
    code, out, err = cli(*shlex.split(command))
    assert code == 2, out + err
    assert message in err
    assert "Traceback" not in err
    assert "Usage:" in err or len(err.strip().splitlines()) == 1, err
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_and_side_files_come_back(dtype, cli, tmp_path):
    bert().to(dtype).save_pretrained(tmp_path / "hf")
    (tmp_path / "hf" / "vocab.txt").write_text("a\nb\n")
    for line in ("import hf --out ours", "export ours --out again"):
        code, _, err = cli(*shlex.split(line))
        assert code == 0, err
    theirs, ours = (load_file(tmp_path / name / "model.safetensors") for name in ("hf", "again"))
    assert set(theirs) == set(ours)
    for name, tensor in theirs.items():
        assert ours[name].dtype == tensor.dtype
        assert torch.equal(ours[name], tensor), name
    assert (tmp_path / "again" / "vocab.txt").read_text() == "a\nb\n"
