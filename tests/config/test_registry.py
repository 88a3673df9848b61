"""A user's own classes: files and packages that register mechanisms, positions, models and tasks."""

from __future__ import annotations

import json
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import regard
from regard import UserError
from regard.attention.mechanisms import MECHANISMS
from regard.attention.positions import POSITIONS
from regard.config import registry
from regard.config.registry import Registry, missing_sources, models_of, user_sources
from regard.data.read_table import Table
from regard.tasks.base import TASKS
from regard.tasks.build_settings import task_models

EXAMPLES = Path(__file__).parents[2] / "docs" / "examples"
TEXTS = ["a fine film", "a dull film", "fine and warm", "dull and cold", "a warm day", "a cold day"] * 5
SETTINGS = {"data": {"batch_tokens": 64}, "tokenizer": {"vocab_size": 50}}


@pytest.fixture(autouse=True)
def only_built_in_classes():
    """Forget the classes that a test has registered."""
    yield
    for entries in registry.REGISTRIES:
        for name in [name for name in entries._entries if entries.source(name)]:
            entries.unregister(name)
    models_of("rate").unregister("transformer")


def table(labels: list[str]) -> Table:
    return Table(TEXTS, labels * 15, [], "f" * 64, len(TEXTS))


def train_classifier(folder: Path, model: str = "my-classifier"):
    settings = {**SETTINGS, "model": {"name": model, "dim": 8, "heads": 2}}
    return regard.train("classify", table(["good", "bad"]), steps=3, out=folder, settings=settings, progress=False)


def test_every_task_and_model_is_registered_and_can_be_imported():
    assert set(TASKS) == {"caption", "classify", "images", "language", "recall", "translate"}
    for task, cls in TASKS.items():
        assert cls.name == task
        for config in task_models(task).values():
            assert hasattr(config, "build") or hasattr(config, "fit")


def test_a_built_in_class_is_imported_at_its_first_use():
    entries: Registry[type] = Registry("thing")
    entries.register("counter", "collections:Counter")
    registry.REGISTRIES.pop()
    assert entries._entries["counter"] == "collections:Counter"
    assert entries["counter"].__name__ == "Counter"
    assert list(entries) == ["counter"]
    with pytest.raises(UserError, match="unknown thing 'conter'; did you mean 'counter'"):
        entries.find("conter")


def test_a_users_classifier_is_trained_and_looked_into(tmp_path):
    regard.import_file(EXAMPLES / "my_classifier.py")
    run = train_classifier(tmp_path / "run")
    assert set(run.predict("a fine day").probabilities) == {"good", "bad"}
    assert regard.load(tmp_path / "run").predict("a fine day") == run.predict("a fine day")
    page = run.look("a fine day", faithful=False)
    assert {one["layer"] if "layer" in one else one["site"] for one in page.data["maps"]} >= {"pool.attend"}


def test_a_users_classifier_is_compared_with_a_built_in_one(tmp_path):
    from regard.tasks.classify.compare import ClassifyComparison

    regard.import_file(EXAMPLES / "my_classifier.py")
    rows = [{"text": text, "label": label} for text, label in zip(TEXTS, ["good", "bad"] * 15, strict=True)]
    (tmp_path / "test.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for model in ("my-classifier", "transformer"):
        scores = ClassifyComparison().score(train_classifier(tmp_path / model, model), tmp_path)
        assert len(scores.outputs) == len(TEXTS)


def test_a_users_task_is_trained(tmp_path):
    regard.import_file(EXAMPLES / "my_task.py")
    settings = {**SETTINGS, "model": {"dim": 8, "heads": 2, "layers": 1}}
    run = regard.train("rate", table(["5", "1"]), steps=20, out=tmp_path / "run", settings=settings, progress=False)
    assert run.metrics["squared_error"] > 0
    assert isinstance(run.predict("a fine film"), float)
    assert regard.load(tmp_path / "run").predict("a fine film") == run.predict("a fine film")
    assert "rate" in (tmp_path / "run" / "README.md").read_text()


def test_opening_a_run_without_its_file_says_how_to_open_it(tmp_path):
    file = EXAMPLES / "my_classifier.py"
    regard.import_file(file)
    run = train_classifier(tmp_path / "run")
    assert run.config["imports"] == {str(file): ["model for classify my-classifier"]}
    models_of("classify").unregister("my-classifier")
    with pytest.raises(UserError, match=r"--import .*my_classifier\.py") as error:
        regard.load(tmp_path / "run")
    assert "regard.import_file(" in str(error.value)
    assert "my-classifier" not in models_of("classify")  # the file was not run
    regard.import_file(file)
    assert regard.load(tmp_path / "run").labels == ["bad", "good"]


def test_a_file_registers_mechanisms_and_positions_by_their_names(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from regard.attention.mechanisms.dot import DotMechanism\n"
        "from regard.attention.positions.none import NoPositions\n"
        "class Mine(DotMechanism):\n    name = 'mine'\n"
        "class Nowhere(NoPositions):\n    name = 'nowhere'\n"
    )
    regard.import_file(file)
    assert MECHANISMS["mine"].name == "mine"
    assert POSITIONS["nowhere"].name == "nowhere"
    assert user_sources({"model": {"mechanism": "mine:key_width=4", "positions": "rotary"}}) == {
        str(file): ["mechanism mine"]
    }
    regard.import_file(file)  # importing a file again replaces its classes


def test_a_name_that_is_taken_is_an_error(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        "from regard.attention.mechanisms.dot import DotMechanism\nclass Dot(DotMechanism):\n    name = 'dot'\n"
    )
    with pytest.raises(UserError, match="already a mechanism named 'dot'"):
        regard.import_file(file)


@pytest.mark.parametrize(
    ("content", "message"),
    [("x = 1\n", "registers nothing"), ("1 / 0\n", "ZeroDivisionError"), ("def\n", "SyntaxError")],
)
def test_a_file_that_cannot_be_used_is_an_error(tmp_path, content, message):
    (tmp_path / "mine.py").write_text(content)
    with pytest.raises(UserError, match=message):
        regard.import_file(tmp_path / "mine.py")


def test_a_missing_file_is_an_error():
    with pytest.raises(UserError, match=r"no Python file 'none\.py'"):
        regard.import_file("none.py")


def test_an_installed_package_registers_by_an_entry_point(tmp_path, monkeypatch):
    (tmp_path / "attention_package.py").write_text(
        "from regard.attention.mechanisms.dot import DotMechanism\nclass Packed(DotMechanism):\n    name = 'packaged'\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    entry = EntryPoint("mine", "attention_package", registry.ENTRY_POINTS)
    monkeypatch.setattr(registry, "entry_points", lambda group: [entry])
    registry.import_entry_points.cache_clear()
    try:
        assert "packaged" in MECHANISMS
        assert MECHANISMS.source("packaged") == "attention_package"
        assert missing_sources({"attention_package": ["mechanism packaged"], "other": ["mechanism gone"]}) == ["other"]
    finally:
        registry.import_entry_points.cache_clear()
        sys.modules.pop("attention_package", None)


def test_a_run_of_an_older_format_says_to_train_again(tmp_path):
    run = regard.train("classify", table(["good", "bad"]), model="nb-svm", out=tmp_path / "run", progress=False)
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    for number, message in ((1, "an older version of regard.*train it again"), (99, "a newer version.*update regard")):
        (tmp_path / "run" / "config.json").write_text(json.dumps({**config, "format": number}))
        with pytest.raises(UserError, match=message):
            regard.load(run.folder)
