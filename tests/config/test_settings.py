"""Settings from files and command lines: what may be written, and what is said of what may not."""

from __future__ import annotations

import pytest

from regard.config.settings import load_settings, merge_settings, parse_duration, parse_overrides
from regard.errors import UserError
from regard.tasks.build_settings import build_settings, settings_to_dict


@pytest.mark.parametrize(
    ("text", "wanted"), [("90s", 90), ("2min", 120), ("2 minutes", 120), ("1.5h", 5400), ("7", 7), (3.5, 3.5)]
)
def test_seconds(text, wanted):
    assert parse_duration(text) == wanted


def test_a_file_may_say_things_shortly(tmp_path):
    file = tmp_path / "s.yaml"
    file.write_text("model: transformer\ndata:\n  text: 3\n  label: 0\ntrain:\n  budget: 2min\n  precision: 32\n")
    settings = build_settings("classify", merge_settings(load_settings(file), {"model": {"mechanism": "additive"}}))
    assert (settings.model_name, settings.model.mechanism) == ("transformer", "additive")
    assert (settings.data.text, settings.data.label) == ("3", "0")
    assert (settings.train.budget, settings.train.precision) == (120, "32")


@pytest.mark.parametrize(("text", "wanted"), [("[2000, 8000]", (2000, 8000)), ("2000", (2000,)), ("[]", ())])
def test_a_list_on_the_command_line(text, wanted):
    settings = build_settings(
        "language", merge_settings({"model": {"name": "ngram-gpt"}}, parse_overrides([f"model.cutoffs={text}"]))
    )
    assert settings.model.cutoffs == wanted


def test_a_bare_section_says_nothing(tmp_path):
    (tmp_path / "s.yaml").write_text("train:\nmodel:\n")
    assert build_settings("classify", load_settings(tmp_path / "s.yaml")) == build_settings("classify", {})


def test_resolved_settings_resolve_to_themselves():
    settings = build_settings(
        "classify", {"model": {"name": "han", "hidden": 7}, "train": {"budget": "90s"}, "seed": 4}
    )
    tree = settings_to_dict(settings)
    assert build_settings(tree.pop("task"), tree) == settings


@pytest.mark.parametrize(
    ("pair", "says"),
    [
        ("seed=-1", "seed"),
        ("data.batch_tokens=0", "batch_tokens"),
        ("seed=99999999999", "seed"),
        ("seed=1__0", "int"),
        ("train.lr=true", "float"),
        ("train.budget=soon", "2min"),
        ("train=5", "TrainSettings"),
        ("model=hna", "'han'"),
        ("data.train.x=1", "str"),
    ],
)
def test_what_cannot_be_meant(pair, says):
    with pytest.raises(UserError, match=says):
        build_settings("classify", parse_overrides([pair]))


@pytest.mark.parametrize("tree", [{"train": {"lr": True}}, {"model": 3}, {"model": ["han"]}, {3: 4}, {"train": {3: 4}}])
def test_plain_data_that_cannot_be_meant(tree):
    with pytest.raises(UserError):
        build_settings("classify", tree)


def test_a_settings_file_that_is_not_text(tmp_path):
    (tmp_path / "s.yaml").write_bytes(b"seed: \xff\n")
    with pytest.raises(UserError, match=r"s\.yaml"):
        load_settings(tmp_path / "s.yaml")
