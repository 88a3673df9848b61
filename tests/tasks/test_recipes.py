"""Classifiers that start from another recipe: what it makes must fit, or that is said only after its training."""

from pathlib import Path

import pytest
import torch

from regard.config.settings import load_settings
from regard.tasks.build_settings import model_module
from regard.tasks.warm_start import recipe

ROOT = Path(__file__).parents[2]
TREES = {path: load_settings(path) for path in sorted((ROOT / "recipes").glob("*.yaml"))}
FOLLOWERS = [p for p, tree in TREES.items() if tree.get("task") == "classify" and recipe(tree.get("warm_start") or "")]


def test_there_are_some():
    assert {path.stem for path in FOLLOWERS} >= {"imdb-han-pretrained", "trec-pretrained"}


@pytest.mark.parametrize("path", FOLLOWERS, ids=lambda path: path.stem)
def test_a_recipe_can_be_built_on_the_largest_vocabulary_of_its_origin(path: Path):
    tree = TREES[path]
    most = load_settings(ROOT / tree["warm_start"])["tokenizer"]["vocab"]
    sizes = {key: value for key, value in tree["model"].items() if key != "name"}
    config = model_module(tree["task"], tree["model"]["name"]).Config(**sizes)
    with torch.device("meta"):
        net = config.build(most, 2)
    assert net.embedding.num_embeddings == most
