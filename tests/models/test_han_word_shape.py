"""A HAN that is told how words are written tells apart what a vocabulary without capitals cannot."""

from pathlib import Path

import numpy as np
import pytest
import torch

from regard.data.read_table import Table
from regard.data.word_shape import pack_shapes
from regard.layers.ngram_log_ratios import EMPTY_KEY
from regard.models import han
from regard.tasks.base_run import Run
from regard.tasks.train import train

TEXTS = ["we saw the Bush", "we saw the bush"] * 40
TABLE = Table(TEXTS, ["man", "plant"] * 40, [], "f", 80)


def trained(out: Path, **more):
    model = {"embed": 8, "hidden": 8, "attention": 8, "dropout": 0.0, **more}
    settings = {"model": model, "train": {"steps": 60, "lr": 0.02, "evaluate_every": 60}}
    return train("classify", TABLE, model="han", out=out, settings=settings, progress=False)


@pytest.mark.parametrize(
    "more", [{"word_shape": 4}, {"word_shape": 4, "ngrams": 2, "table_size": 50, "ngram_dropout": 0.0}]
)
def test_learns_from_capitals(more: dict, tmp_path: Path):
    run = trained(tmp_path / "run", **more)
    for one in (run, Run.load(tmp_path / "run")):
        assert one.predict("we saw the Bush").label == "man"
        assert one.predict("we saw the bush").label == "plant"
    assert run.evaluate(TABLE)["accuracy"] == 1.0
    shown = run.look("we saw the Bush", faithful=False).data
    assert [token["text"] for token in shown["tokens"]] == ["we", "saw", "the", "Bush"]


def test_without_it_both_are_one_word(tmp_path: Path):
    run = trained(tmp_path / "run")
    assert run.predict("we saw the Bush") == run.predict("we saw the bush")


def test_words_are_looked_up_by_themselves():
    torch.manual_seed(0)
    model = han.HANConfig(embed=8, hidden=8, attention=8, word_shape=4).build(20, 3).eval()
    words, mask = torch.tensor([[7, 8]]), torch.ones(1, 2, dtype=torch.bool)
    ids = torch.from_numpy(pack_shapes(words.numpy(), np.array([[0, 2]])))
    sentences = torch.zeros(1, 2).long()
    told = model(ids, mask, sentences).logits
    with torch.no_grad():
        model.word_shape.weight[2] = model.word_shape.weight[0]
    as_others = model(ids, mask, sentences).logits
    assert not torch.equal(told, as_others)
    torch.testing.assert_close(as_others, model(words, mask, sentences).logits)


def test_n_grams_are_counted_of_words_however_they_are_written():
    words = np.array([7, 8, 9, 7, 8, 9], np.int32)
    written = pack_shapes(words, np.array([1, 0, 2, 0, 0, 3], np.int32))
    starts, labels = np.array([0, 3, 6]), np.eye(2)
    tables = []
    for ids in (words, written):
        model = han.HANConfig(embed=8, hidden=8, attention=8, word_shape=4, ngrams=2, table_size=20).build(20, 2)
        model.fit_training_data(ids, starts, labels)
        assert model.ngrams is not None
        tables.append(model.ngrams.keys)
    assert torch.equal(*tables)
    assert (tables[0] < EMPTY_KEY).sum() == 5
