"""Runs of `language`: train each objective, resume, warm start, evaluate."""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import regard
from regard.config.messages import collect_messages
from regard.errors import UserError
from regard.tasks import warm_start
from regard.tasks.build_settings import build_settings
from regard.training import loop
from regard.training.checkpoint import read_tensors
from regard.training.interrupts import Interrupted

PERIOD = "abcdefg. "
QUIET = {"progress": False}


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> Path:
    """A periodic text, in which every token can be predicted."""
    file = tmp_path_factory.mktemp("text") / "corpus.txt"
    file.write_text(PERIOD * 600)
    return file


SIZES = {
    "gpt": {"dim": 32, "layers": 1, "heads": 2, "positions": "rotary"},
    "ngram-gpt": {"dim": 32, "layers": 1, "heads": 2},
    "bert": {"dim": 32, "layers": 1, "heads": 2, "hidden": 64, "positions": "rotary", "dropout": 0.0},
    "bert, pre-norm": {
        **{"dim": 32, "layers": 1, "heads": 2, "hidden": 64, "positions": "rotary", "dropout": 0.0},
        "norm": "pre",
    },
    "birnn": {"dim": 16, "hidden": 24, "dropout": 0.0},
    "cnn": {"dim": 24, "layers": 4},
}


def train(text: Path, out: Path, objective: str, model: str, *, steps: int = 60, block_size: int = 24, **more):
    settings = {
        "model": {"name": model.split(",")[0], **SIZES[model], **more.pop("sizes", {})},
        "data": {"block_size": block_size, "batch_tokens": 16 * block_size, **more.pop("data", {})},
        "tokenizer": {"kind": more.pop("tokenizer", "chars")},
        "train": {"lr": 0.01, "steps": steps, "evaluate_every": steps, "weight_decay": 0.0, **more.pop("train", {})},
        "corruption": more.pop("corruption", {}),
    }
    return regard.train("language", text, objective=objective, out=out, settings=settings, **QUIET, **more)


@pytest.mark.parametrize(
    ("objective", "model", "steps", "corruption"),
    [
        ("causal", "gpt", 80, {}),
        ("causal", "ngram-gpt", 40, {}),
        ("causal", "cnn", 60, {}),
        ("masked", "bert", 320, {}),
        ("masked", "bert, pre-norm", 250, {}),
        ("blank", "birnn", 80, {}),
        ("blank", "birnn", 200, {"sampled": 12}),
        ("span", "gpt", 400, {}),
        ("span", "cnn", 150, {"loss": "all"}),
    ],
)
def test_every_objective_is_learned(text, tmp_path, objective, model, steps, corruption):
    positions = {"positions": "learned:length=64"} if (objective, model) == ("span", "gpt") else {}
    run = train(text, tmp_path / "run", objective, model, steps=steps, corruption=corruption, sizes=positions)
    if (objective, model) == ("span", "cnn"):  # without positions it learns late where a span starts and ends
        assert run.metrics["accuracy"] > 0.6
        return
    assert run.metrics["loss"] < 0.25
    if objective == "causal":
        assert run.metrics["bits_per_character"] == pytest.approx(run.metrics["loss"] / 0.6931, rel=0.01)
        assert run.metrics["perplexity"] == pytest.approx(2.71828 ** run.metrics["loss"], rel=1e-4)
    else:
        assert run.metrics["accuracy"] > 0.93
    again = regard.load(run.folder)
    assert again.objective == objective
    metrics = again.evaluate(text)
    assert metrics["loss"] < 0.25
    assert metrics.get("stride") == (24 if objective in ("causal", "blank") else None)
    assert again.perplexity(PERIOD * 30) < 1.5
    with pytest.raises(UserError, match="stride"):
        again.evaluate(text, stride=99)


def test_next_sentence_prediction_is_learned(tmp_path):
    """Documents about cats and about dogs: a dog does not follow a cat."""
    file, random = tmp_path / "corpus.txt", np.random.default_rng(0)
    file.write_text("\n\n".join(("cat sat. ", "dog ran! ")[i] * 30 for i in random.integers(0, 2, 100)))
    run = train(
        file, tmp_path / "run", "masked", "bert, pre-norm", steps=250, block_size=19,
        corruption={"next_sentence": True}, data={"documents": "blank", "valid_fraction": 0.3},
        sizes={"positions": "none"}, tokenizer="words",
    )  # fmt: skip
    assert run.metrics["next_accuracy"] > 0.62  # half of the other sentences are about the same animal
    assert {"loss", "accuracy", "next_loss"} <= run.metrics.keys()
    line = json.loads((run.folder / "metrics.jsonl").read_text().splitlines()[0])
    assert set(line["terms"]) == {"words", "next"}
    assert line["loss"] == pytest.approx(sum(line["terms"].values()), rel=1e-5)


@pytest.mark.parametrize(
    ("objective", "model", "more"),
    [
        ("causal", "gpt", {"train": {"ema_decay": 0.9, "optimizer": "muon"}}),
        ("masked", "bert", {"corruption": {"whole_words": True, "next_sentence": True}, "sizes": {"dropout": 0.2}}),
        ("blank", "birnn", {"sizes": {"dropout": 0.2}}),
        ("blank", "birnn", {"corruption": {"sampled": 12}}),
        ("blank", "birnn", {"corruption": {"sampled": 12}, "sizes": {"subword_buckets": 40}}),
        ("span", "cnn", {}),
    ],
)
def test_a_resumed_run_has_the_same_bytes(text, tmp_path, monkeypatch, objective, model, more):
    def options() -> dict:
        given = {key: dict(value) for key, value in more.items()}
        given["train"] = {"evaluate_every": 3, "checkpoint_seconds": 0, **given.get("train", {})}
        return given

    train(text, tmp_path / "whole", objective, model, steps=8, **options())

    class Stop(Exception):
        pass

    def stop_after(self, wishes, bar, after=loop.Loop._finish_step):
        after(self, wishes, bar)
        if self.state.step == 4:
            raise Stop

    with monkeypatch.context() as patch:
        patch.setattr(loop.Loop, "_finish_step", stop_after)
        with pytest.raises(Stop):
            train(text, tmp_path / "cut", objective, model, steps=8, **options())
    run = regard.train("language", out=tmp_path / "cut", resume=True, **QUIET)
    whole = regard.load(tmp_path / "whole")
    assert run.metrics == whole.metrics
    assert (tmp_path / "cut/model.safetensors").read_bytes() == (tmp_path / "whole/model.safetensors").read_bytes()


def test_a_run_does_not_resume_on_changed_text(text, tmp_path):
    shutil.copy(text, tmp_path / "mine.txt")
    run = train(tmp_path / "mine.txt", tmp_path / "run", "causal", "gpt", steps=2)
    config = json.loads((run.folder / "config.json").read_text())
    del config["finished"]
    (run.folder / "config.json").write_text(json.dumps(config))
    (tmp_path / "mine.txt").write_text(PERIOD * 599)
    with pytest.raises(UserError, match="train data have changed"):
        regard.train("language", out=tmp_path / "run", resume=True, **QUIET)


def test_a_validation_file_and_several_texts(text, tmp_path):
    (tmp_path / "more").mkdir()
    (tmp_path / "more/a.txt").write_text(PERIOD * 50)
    (tmp_path / "valid.txt").write_text(PERIOD * 20)
    run = train([text, tmp_path / "more"], tmp_path / "run", "causal", "gpt", steps=2, valid=tmp_path / "valid.txt")
    data = run.config["data"]
    assert data["train"]["tokens"] == len(PERIOD) * 650 + 2
    assert data["train"]["documents"] == 2
    assert data["valid"]["tokens"] == len(PERIOD) * 20 + 1
    card = (run.folder / "README.md").read_text()
    assert "181 tokens" in card
    assert "regard generate" in card


def test_text_that_is_already_split_into_words(tmp_path):
    (tmp_path / "w.txt").write_text(" = The <unk> = \n \n the cat , <unk> sat . \n" * 80)
    settings = {"tokenizer": {"kind": "spaces"}, "data": {"block_size": 16}, "model": SIZES["gpt"]}
    run = regard.train("language", tmp_path / "w.txt", steps=2, out=tmp_path / "run", settings=settings, **QUIET)
    assert run.metrics["word_perplexity"] == pytest.approx(run.metrics["perplexity"])
    assert "bits_per_byte" not in run.metrics
    with pytest.raises(UserError, match="0 tokens"):
        run.perplexity("")
    assert run.config["vocab_size"] == 6 + len(["=", "The", "the", "cat", ",", "sat", "."])
    assert run.config["data"]["train"]["tokens"] + run.config["data"]["valid"]["tokens"] == 80 * (5 + 1 + 7)


# Warm start ---------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def reviews(tmp_path_factory) -> Path:
    file = tmp_path_factory.mktemp("reviews") / "reviews.txt"
    file.write_text("".join(f"{w} a {w} bcd efg.\n" for w in ("ab", "cd") for _ in range(20)))
    return file


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("bert", {}),
        ("bert", {"positions": "learned:length=64", "activation": "relu"}),
        ("bert, pre-norm", {}),
        ("bert, pre-norm", {"positions": "learned:length=64", "activation": "relu"}),
        ("gpt", {"bias": True, "positions": "learned:length=64"}),
        ("gpt", {"bias": False, "activation": "gelu-tanh"}),
    ],
)
def test_a_transformer_starts_with_the_states_of_the_language_model(text, reviews, tmp_path, name, options):
    """Its layers compute the same hidden states."""
    objective = "causal" if name == "gpt" else "masked"
    run = train(text, tmp_path / "before", objective, name, steps=3, sizes=options)
    tree = warm_start.adopt_settings("classify", {"warm_start": str(run.folder), "data": {"train": str(reviews)}})
    settings = build_settings("classify", tree)
    torch.manual_seed(0)
    model = settings.model.build(run.config["vocab_size"], 2).eval()
    transfer = warm_start.transfer_weights(model, settings)
    assert settings.model_name == "transformer"
    assert all(name.split(".")[0] in ("pool", "head", "layers", "norm") for name in transfer.new)
    assert {"head.weight", "head.bias"} <= set(transfer.new)
    if name != "gpt":
        assert "mlm_dense.weight" in transfer.skipped
    seen = {}
    model.pool.register_forward_hook(lambda module, inputs, out: seen.update(states=inputs[0]))
    if name == "gpt":  # causal
        for layer in model.layers:
            whole = layer.forward
            layer.forward = lambda x, key_mask, whole=whole: whole(x, causal=True)
    ids = torch.randint(6, run.config["vocab_size"], (2, 9))
    with torch.no_grad():
        model(ids, torch.ones_like(ids).bool())
        torch.testing.assert_close(seen["states"], run.model.hidden_states(ids), rtol=1e-4, atol=1e-4)


def test_a_gated_cnn_starts_with_the_states_of_the_causal_cnn(text, reviews, tmp_path):
    run = train(text, tmp_path / "before", "causal", "cnn", steps=3, sizes={"dilation_cycle": 3})
    settings = build_settings(
        "classify",
        warm_start.adopt_settings("classify", {"warm_start": str(run.folder), "data": {"train": str(reviews)}}),
    )
    model = settings.model.build(run.config["vocab_size"], 2).eval()
    transfer = warm_start.transfer_weights(model, settings)
    assert settings.model_name == "gated-cnn"
    assert not transfer.skipped
    assert {name.split(".")[0] for name in transfer.new} == {"pool", "head"}
    seen = {}
    model.pool.register_forward_hook(lambda module, inputs, out: seen.update(states=inputs[0]))
    ids = torch.randint(6, run.config["vocab_size"], (2, 20))
    with torch.no_grad():
        model(ids, torch.ones_like(ids).bool())
        torch.testing.assert_close(seen["states"], run.model.hidden_states(ids), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("ngrams", [0, 2])
def test_a_han_starts_with_the_states_of_the_birnn(text, reviews, tmp_path, ngrams):
    """Also with n-gram features, whose weights start at zero."""
    run = train(text, tmp_path / "before", "blank", "birnn", steps=3, sizes={"cell": "gru"}, tokenizer="words")
    tree = {"warm_start": str(run.folder), "data": {"train": str(reviews)}, "model": {"ngrams": ngrams}}
    settings = build_settings("classify", warm_start.adopt_settings("classify", tree))
    assert settings.model_name == "han"
    model = settings.model.build(run.config["vocab_size"], 2).eval()
    transfer = warm_start.transfer_weights(model, settings)
    assert len(transfer.loaded) == 9
    seen = {}
    model.word_pool.register_forward_hook(lambda module, inputs, out: seen.update(states=inputs[0]))
    ids = torch.randint(6, run.config["vocab_size"], (1, 11))
    if model.ngrams is not None:
        torch.nn.init.normal_(model.ngrams.delta.weight)
    with torch.no_grad():
        model(ids, torch.ones_like(ids).bool(), torch.zeros_like(ids))
        read = run.model.rnn(run.model.embed(ids), torch.tensor([11]))
    torch.testing.assert_close(seen["states"], read, rtol=1e-5, atol=1e-5)


def test_a_birnn_starts_the_classifier_with_its_cells(text, reviews, tmp_path):
    run = train(text, tmp_path / "lstm", "blank", "birnn", steps=2)
    tree = {"warm_start": str(run.folder), "data": {"train": str(reviews)}}
    assert build_settings("classify", warm_start.adopt_settings("classify", tree)).model_name == "bilstm"
    with pytest.raises(UserError, match="has 'gru' cells, but the run has 'lstm'"):
        warm_start.adopt_settings("classify", {**tree, "model": {"name": "han"}})


@pytest.fixture
def recipe(reviews, tmp_path, monkeypatch) -> Path:
    """A settings file for a language model of the reviews."""
    monkeypatch.chdir(tmp_path)
    settings = {
        "task": "language",
        "objective": "blank",
        "data": {"train": [f"{reviews}:text"], "block_size": 24, "batch_tokens": 200},
        "tokenizer": {"kind": "words", "vocab_size": 60},
        "model": {"name": "birnn", "dim": 8, "hidden": 6, "cell": "gru"},
        "train": {"steps": 3, "checkpoint_seconds": 0},
    }
    file = tmp_path / "words.json"
    file.write_text(json.dumps(settings))
    return file


def test_the_run_of_a_recipe_is_trained_first_and_once(recipe, reviews, tmp_path):
    given = {"warm_start": "words.json", "model": "han", "steps": 2, "progress": False}
    with collect_messages() as messages:
        made = regard.train("classify", reviews, out=tmp_path / "first", **given)
    assert messages[0] == f"training {Path('runs/words')} first, for the warm start from words.json"
    assert made.config["settings"]["warm_start"] == str(tmp_path / "runs" / "words")
    assert made.tokenizer.core.to_str() == regard.load("runs/words").tokenizer.core.to_str()
    assert made.config["warm_start"]["loaded"]
    date = Path("runs/words/model.safetensors").stat().st_mtime_ns
    again = regard.train("classify", reviews, out=tmp_path / "second", **given)
    assert Path("runs/words/model.safetensors").stat().st_mtime_ns == date
    before, after = (read_tensors(run.folder / "model.safetensors") for run in (made, again))
    assert all(torch.equal(before[name], after[name]) for name in before)
    regard.train("classify", reviews, out=tmp_path / "second", resume=True, **given)
    tree = warm_start.adopt_settings("classify", {"warm_start": "words.json", "data": {"train": str(reviews)}})
    assert tree["warm_start"] == str(Path("runs/words"))
    recipe.write_text(recipe.read_text().replace('"hidden": 6', '"hidden": 7'))
    with pytest.raises(UserError, match=r"with other settings: model\.hidden"):
        regard.train("classify", reviews, out=tmp_path / "third", **given)


def test_the_run_of_a_recipe_is_resumed(recipe, reviews, tmp_path):
    given = {"warm_start": recipe, "model": "han", "steps": 2, "out": tmp_path / "run"}
    recipe.write_text(recipe.read_text().replace('"steps": 3', '"steps": 300'))

    def stop() -> None:  # once there is a checkpoint the loop listens
        while not list(Path("runs/words/state").glob("step-*")):
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=stop, daemon=True).start()
    with pytest.raises(Interrupted) as stopped:
        regard.train("classify", reviews, **given, **QUIET)
    assert stopped.value.in_warm_start
    assert not (tmp_path / "run").exists()
    with pytest.raises(UserError, match="must be trained first: regard train language --config"):
        warm_start.adopt_settings("classify", {"warm_start": str(recipe)})
    run = regard.train("classify", reviews, **given, **QUIET)
    assert run.config["finished"]
    assert regard.load("runs/words").config["steps"] == 300


def test_an_unusable_recipe_is_an_error(recipe, reviews):
    with pytest.raises(UserError, match=r"no such file: 'revews\.txt'"):  # before anything is trained
        regard.train("classify", "revews.txt", warm_start=recipe, **QUIET)
    with pytest.raises(UserError, match="not empty and not a run"):
        regard.train("classify", reviews, warm_start=recipe, out=recipe.parent, **QUIET)
    assert not Path("runs").exists()
    with pytest.raises(UserError, match=r"no settings file 'none\.yaml'"):
        regard.train("classify", reviews, warm_start="none.yaml", **QUIET)
    recipe.write_text(recipe.read_text().replace('"task": "language", ', ""))
    with pytest.raises(UserError, match="has no task"):
        regard.train("classify", reviews, warm_start=recipe, **QUIET)


def test_a_large_text_has_a_small_validation_part(text, tmp_path):
    run = train(text, tmp_path / "run", "causal", "gpt", steps=2, data={"valid_tokens": 100})
    assert run.config["data"]["valid"]["tokens"] == 100


def test_a_classifier_starts_from_a_language_model(text, reviews, tmp_path):
    run = train(text, tmp_path / "before", "masked", "bert", steps=3, sizes={"positions": "learned:length=30"})
    given = {"steps": 2, "out": tmp_path / "after", "progress": False}
    with collect_messages() as messages:
        made = regard.train("classify", reviews, warm_start=run.folder, **given)
    assert made.settings.model.dim == 32
    assert made.settings.data.max_tokens == 30
    assert made.tokenizer.core.to_str() == run.tokenizer.core.to_str()
    text = "\n".join(messages)
    assert "tensors loaded" in text
    assert "not used: " in text
    assert "new: pool" in text
    assert made.config["warm_start"]["loaded"]
    assert regard.load(tmp_path / "after").predict("ab a ab").label in ("ab", "cd")


def test_a_run_that_stopped_before_its_first_checkpoint_starts_with_the_warm_start_again(text, tmp_path, monkeypatch):
    run = train(text, tmp_path / "before", "causal", "gpt", steps=3)
    given = {"warm_start": run.folder, "steps": 2, "settings": {"data": {"block_size": 24}}, **QUIET}
    whole = regard.train("language", text, out=tmp_path / "whole", **given)

    def fail(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("regard.tasks.train.fit", fail)
        with pytest.raises(KeyboardInterrupt):
            regard.train("language", text, out=tmp_path / "cut", **given)
    again = regard.train("language", out=tmp_path / "cut", resume=True, **QUIET)
    assert again.metrics == whole.metrics


def test_a_warm_start_of_the_same_model_loads_all_weights(text, tmp_path):
    run = train(text, tmp_path / "before", "span", "gpt", steps=3, corruption={"loss": "all"})
    settings = build_settings("language", warm_start.adopt_settings("language", {"warm_start": str(run.folder)}))
    assert (settings.objective, settings.corruption.loss) == ("span", "all")
    model = settings.model.build(run.config["vocab_size"])
    transfer = warm_start.transfer_weights(model, settings)
    assert not transfer.new
    assert not transfer.skipped
    kept = read_tensors(run.folder / "model.safetensors")
    assert all(torch.equal(model.state_dict()[name], tensor) for name, tensor in kept.items())
    wider = dataclasses.replace(settings, model=dataclasses.replace(settings.model, hidden=99))
    transfer = warm_start.transfer_weights(wider.model.build(run.config["vocab_size"]), wider)
    assert "layers.0.ffn.up.weight" in transfer.new
    assert "layers.0.ffn.up.weight" in transfer.skipped


def test_an_impossible_warm_start_is_an_error(text, reviews, tmp_path):
    tables = train(text, tmp_path / "tables", "causal", "ngram-gpt", steps=2)
    bert = train(text, tmp_path / "bert", "masked", "bert", steps=2)
    bag = regard.train("classify", reviews, model="tfidf", out=tmp_path / "bag", **QUIET)
    han = regard.train("classify", reviews, model="han", steps=2, out=tmp_path / "han", **QUIET)
    for task, tree, says in (
        ("classify", {"warm_start": str(tables.folder)}, "not 'classify'"),
        ("classify", {"warm_start": str(bert.folder), "model": {"name": "han"}}, "not a han"),
        ("classify", {"warm_start": str(bag.folder)}, "fitted tfidf"),
        ("language", {"warm_start": str(han.folder)}, "It can be the warm start of a han of 'classify'"),
        ("language", {"warm_start": str(bert.folder), "tokenizer": {"kind": "bpe"}}, "tokenizer is that of"),
        ("language", {"warm_start": str(tmp_path / "none")}, "no such run folder"),
    ):
        with pytest.raises(UserError, match=says):
            warm_start.adopt_settings(task, tree)
    with pytest.raises(UserError, match="Models for it: gpt, ngram-gpt, cnn"):
        build_settings(
            "language", warm_start.adopt_settings("language", {"warm_start": str(bert.folder), "objective": "causal"})
        )


def test_unknown_tokens_are_counted_and_reported(text, tmp_path):
    run = train(text, tmp_path / "run", "causal", "cnn", steps=1)
    assert run.metrics["unknown"] == 0
    other = tmp_path / "other.txt"
    other.write_text(f"{PERIOD}\N{SNOWMAN}" * 30)
    with collect_messages() as messages:
        found = run.evaluate(other)
    assert found["unknown"] == pytest.approx(30 / found["tokens"])
    assert any("not in the vocabulary" in line for line in messages)


def test_a_stride_is_for_sliding_windows_only(text, tmp_path):
    from regard.tasks.language.task import LanguageTask

    settings = {"model": {"name": "bert"}, "data": {"stride": 8}}
    with pytest.raises(UserError, match=r"--stride 8 has no effect for the objective 'masked'.*leave it out"):
        regard.train("language", text, objective="masked", settings=settings, out=tmp_path / "none", **QUIET)
    run = train(text, tmp_path / "run", "span", "cnn", steps=1)
    assert "stride" not in LanguageTask().describe_run(run.config)
    with pytest.raises(UserError, match="--stride 8 has no effect for the objective 'span'"):
        run.evaluate(text, stride=8)


# Errors -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tree", "says"),
    [
        ({"objective": "casual"}, "'causal'"),
        ({"objective": "masked", "model": "gpt"}, "Objectives of gpt: causal, span"),
        ({"objective": "blank", "model": "bert"}, "Models for it: birnn"),
        ({"objective": "causal", "corruption": {"rate": 0.2}}, r"corruption\.rate"),
        ({"objective": "masked", "corruption": {"rate": 2}}, "between 0 and 1"),
        ({"objective": "span", "corruption": {"loss": "some"}}, "'span' or 'all'"),
        ({"data": {"block_size": 1}}, "2 or more"),
        ({"data": {"stride": 300}}, r"data\.stride"),
        ({"data": {"block_size": 2048}}, "learned:length=2048"),
        ({"data": {"documents": "page"}}, "blank"),
        ({"model": {"vocab_size": 77}}, "unknown setting"),
        ({"data": {"valid_fraction": 1.0}}, "valid_fraction"),
        ({"corruption": 5}, "mapping"),
    ],
)
def test_invalid_settings_are_an_error(tree, says):
    with pytest.raises(UserError, match=says):
        build_settings("language", tree)


@pytest.mark.parametrize(
    ("content", "says"), [("", "no text"), ("abc", "window of data.block_size=24"), ("\n\n\n", "training part has")]
)
def test_a_text_that_is_too_short_is_an_error(tmp_path, content, says):
    (tmp_path / "t.txt").write_text(content)
    with pytest.raises(UserError, match=says):
        train(tmp_path / "t.txt", tmp_path / "run", "causal", "gpt", steps=2)
    (tmp_path / "t.txt").write_text(PERIOD * 50)
    assert train(tmp_path / "t.txt", tmp_path / "run", "causal", "gpt", steps=2).metrics  # the folder is free


def test_a_table_in_python_is_an_error(tmp_path):
    from regard.data.read_table import Table

    with pytest.raises(UserError, match="files or folders"):
        regard.train("language", Table(["a"], None, [], "x", 1), steps=1, out=tmp_path / "run", **QUIET)


@pytest.mark.slow
def test_two_processes_give_the_losses_of_one(text, tmp_path):
    """Also with random masks, and with parameters that the objective does not train."""
    command = (
        f"train language {text} --objective masked --tokenizer chars --block-size 24 --steps 4 --batch-tokens 240 "
        "--quiet --set model.dim=32 --set model.layers=1 --set model.dropout=0"
    )
    clean = {k: v for k, v in os.environ.items() if k not in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "NODE_RANK")}
    environment = {**clean, "PYTHONPATH": str(Path(regard.__file__).parents[1]), "OMP_NUM_THREADS": "1"}
    losses = []
    for more in ("--out one", "--out two --num-devices 2 --strategy ddp"):
        done = subprocess.run(
            [sys.executable, "-m", "regard.cli", *shlex.split(command), *shlex.split(more)],
            env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=250, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        lines = map(json.loads, (tmp_path / more.split()[1] / "metrics.jsonl").read_text().splitlines())
        losses.append([line["loss"] for line in lines if "loss" in line])
    assert len(losses[0]) == 4
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)
