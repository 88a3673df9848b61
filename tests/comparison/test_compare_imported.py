"""Models from a Hugging Face folder in a comparison: frozen with logistic regression, and fine-tuned."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from comparison_helpers import run, small_request
from tokenizers import Tokenizer, models, pre_tokenizers

from regard.comparison.designs import build_designs
from regard.comparison.hf_frozen import TextEncoder
from regard.comparison.score_run import load_run
from regard.errors import UserError
from regard.hub import save_folder
from regard.models.bert import BERT


@pytest.fixture(scope="module")
def folder(tmp_path_factory, reviews):
    """A small random BERT in a Hugging Face folder."""
    home = tmp_path_factory.mktemp("hf")
    words = sorted({w for w in reviews.read_text().replace('"', " ").replace(".", " ").split() if w.isalpha()})
    core = Tokenizer(models.WordLevel({"[UNK]": 0, **{w: i + 1 for i, w in enumerate(words)}}, unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()  # type: ignore[assignment]
    core.save(str(home / "tokenizer.json"))
    torch.manual_seed(0)
    net = BERT(len(words) + 1, dim=16, hidden=24, layers=1, heads=2, positions="learned:length=256")
    return save_folder(net, home / "bert", tokenizer=home / "tokenizer.json")


def test_padding_does_not_change_the_vectors(folder):
    encode = TextEncoder(folder)
    texts = ["My opinion", "I loved this film and the whole evening", "I"]
    together = encode(texts)
    for text, vector in zip(texts, together, strict=True):
        np.testing.assert_allclose(encode([text])[0], vector, atol=1e-6)


def test_imported_models_are_compared(folder, reviews, tmp_path):
    options = {
        "models": [f"frozen:folder={folder}", f"tuned:folder={folder}", "tfidf"],
        "seeds": 2,
        "budget": ["6steps"],
    }
    results = run(small_request(reviews, **options), tmp_path / "out")
    assert results["failures"] == {}
    assert results["evaluated"] == 6
    rows = {row["name"].split(":")[0]: row for row in results["rows"]}
    assert rows["frozen"]["values"][0] == rows["frozen"]["values"][1]  # it does not depend on the seed
    assert rows["tuned"]["steps"] == 6
    assert rows["tuned"]["flops"] > 0
    classifier = load_run(next((tmp_path / "out/runs").glob("tuned*/seed-0")))
    start = TextEncoder(folder).model.state_dict()
    assert any(not torch.equal(tensor, start[name]) for name, tensor in classifier.model.encoder.state_dict().items())
    again = run(small_request(reviews, **options), tmp_path / "out")
    assert again["rows"] == results["rows"]


def test_a_long_folder_is_truncated_in_the_name():
    long = "/" + "/".join(["somewhere"] * 6) + "/minilm/model"
    designs = build_designs("classify", [f"frozen:folder={long}", "frozen:folder=bert"], {})
    assert [design.name for design in designs] == ["frozen:folder=…/minilm/model", "frozen:folder=bert"]
    assert designs[0].settings["model"]["folder"] == long


def test_a_folder_without_a_model_raises(reviews, tmp_path):
    with pytest.raises(UserError, match=r"no config\.json"):
        run(small_request(reviews, models=[f"frozen:folder={tmp_path}"]), tmp_path / "out")
