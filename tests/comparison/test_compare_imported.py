"""Models from a Hugging Face folder take part: frozen with logistic regression above, and fine-tuned."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from comparing import asked
from tokenizers import Tokenizer, models, pre_tokenizers

from regard.comparison import compare_designs
from regard.comparison.designs import Asked, designs
from regard.comparison.hf_frozen import Embedder
from regard.comparison.scoring import opened
from regard.errors import UserError
from regard.hub import save_folder
from regard.models.bert import BERT, BERTConfig


@pytest.fixture(scope="module")
def folder(tmp_path_factory, reviews):
    """A small BERT by chance, as Hugging Face would keep it."""
    home = tmp_path_factory.mktemp("hf")
    words = sorted({w for w in reviews.read_text().replace('"', " ").replace(".", " ").split() if w.isalpha()})
    core = Tokenizer(models.WordLevel({"[UNK]": 0, **{w: i + 1 for i, w in enumerate(words)}}, unk_token="[UNK]"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()  # type: ignore[assignment]
    core.save(str(home / "tokenizer.json"))
    torch.manual_seed(0)
    net = BERT(len(words) + 1, dim=16, hidden=24, layers=1, heads=2, positions="learned:length=256")
    return save_folder(net, home / "bert", tokenizer=home / "tokenizer.json")


def test_padding_changes_no_vector(folder):
    embed = Embedder(folder)
    texts = ["My opinion", "I loved this film and the whole evening", "I"]
    together = embed(texts)
    for text, vector in zip(texts, together, strict=True):
        np.testing.assert_allclose(embed([text])[0], vector, atol=1e-6)


def test_they_take_part(folder, reviews, tmp_path):
    how = {"models": [f"frozen:folder={folder}", f"tuned:folder={folder}", "tfidf"], "seeds": 2, "budget": ["6steps"]}
    found = compare_designs(asked(reviews, **how), tmp_path / "out", progress=False)
    assert found["failures"] == {}
    assert found["measured"] == 6
    rows = {row["name"].split(":")[0]: row for row in found["rows"]}
    assert rows["frozen"]["values"][0] == rows["frozen"]["values"][1]  # nothing in it hangs on the seed
    assert rows["tuned"]["steps"] == 6
    assert rows["tuned"]["flops"] > 0
    run = opened(next((tmp_path / "out/runs").glob("tuned*/seed-0")))
    start = Embedder(folder).net.state_dict()
    assert any(not torch.equal(tensor, start[name]) for name, tensor in run.model.net.state_dict().items())
    again = compare_designs(asked(reviews, **how), tmp_path / "out", progress=False)
    assert again["rows"] == found["rows"]


def test_of_a_long_folder_the_end_is_shown():
    long = "/" + "/".join(["somewhere"] * 6) + "/minilm/model"
    made = designs(Asked("classify", [f"frozen:folder={long}", "frozen:folder=bert"]))
    assert [design.name for design in made] == ["frozen:folder=…/minilm/model", "frozen:folder=bert"]
    assert made[0].tree["model"]["folder"] == long


def test_a_folder_of_something_else(reviews, tmp_path):
    with pytest.raises(UserError, match=r"no config\.json"):
        compare_designs(asked(reviews, models=[f"frozen:folder={tmp_path}"]), tmp_path / "out", progress=False)
