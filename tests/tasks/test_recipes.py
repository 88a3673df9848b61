"""Recipes of classifiers with a warm start from another recipe: the model must fit the vocabulary of that recipe.
Otherwise the error would come only after its training."""

from pathlib import Path

import pytest
import torch

from regard.config.settings import load_settings
from regard.tasks.build_settings import build_settings, task_models
from regard.tasks.warm_start import recipe_file

ROOT = Path(__file__).parents[2]
TREES = {path: load_settings(path) for path in sorted((ROOT / "recipes").glob("*.yaml"))}
WARM_STARTED = [
    path for path, tree in TREES.items() if tree.get("task") == "classify" and recipe_file(tree.get("warm_start") or "")
]


def test_there_are_recipes_with_a_warm_start():
    assert {path.stem for path in WARM_STARTED} >= {"imdb-han-pretrained", "trec-pretrained"}


@pytest.mark.parametrize("path", WARM_STARTED, ids=lambda path: path.stem)
def test_the_model_can_be_built_with_the_vocabulary_of_its_warm_start(path: Path):
    tree = TREES[path]
    vocab_size = load_settings(ROOT / tree["warm_start"])["tokenizer"]["vocab_size"]
    options = {key: value for key, value in tree["model"].items() if key != "name"}
    config = task_models(tree["task"]).find(tree["model"]["name"])(**options)
    with torch.device("meta"):
        model = config.build(vocab_size, 2)
    assert model.embedding.num_embeddings == vocab_size


@pytest.mark.parametrize("path", [path for path, tree in TREES.items() if "task" in tree and "models" not in tree])
def test_the_settings_of_every_recipe_are_known(path: Path):
    tree = dict(TREES[path])
    build_settings(tree.pop("task"), {key: value for key, value in tree.items() if key != "warm_start"})
