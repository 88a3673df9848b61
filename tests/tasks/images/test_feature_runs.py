"""Runs on image features: read from a file, or computed by a timm backbone (here a small fake)."""

from __future__ import annotations

import importlib
import json
import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

import regard
from regard.data.synthetic.scene_files import write_scenes
from regard.errors import UserError
from regard.models.timm_backbone import Backbone, apply_backbone

QUIET = {"progress": False}
MODEL = {"dim": 16, "hidden": 24, "dropout": 0.0}


@pytest.fixture(scope="module")
def scenes(tmp_path_factory):
    """Images and features of them: the mean color of each of 4 x 4 cells."""
    folder = tmp_path_factory.mktemp("scenes")
    write_scenes(folder, 60, eval_count=6, size=32)
    from regard.data import image_files

    for part in ("train", "unseen"):
        source = image_files.open_images(folder / f"{part}.zip")
        images = image_files.read_images(source, source.names, 32)
        means = images.array.reshape(-1, 4, 8, 4, 8, 3).mean((2, 4)) / 64
        np.savez(folder / f"{part}.npz", **dict(zip(images.names, means.astype(np.float32), strict=True)))
        (folder / "classes").mkdir(exist_ok=True)
    features = np.load(folder / "train.npz", allow_pickle=False)
    np.savez(folder / "classes.npz", **{f"{('odd', 'even')[i % 2]}/{n}": features[n] for i, n in enumerate(features)})
    return folder


def train_captioner(scenes, out, data="train.npz", **data_settings):
    files = [scenes / data, scenes / "train.captions.tsv"]
    settings = {"model": MODEL, "data": {"size": 32, "batch": 16, **data_settings}, "train": {"lr": 0.02}}
    return regard.train("caption", files, steps=20, settings=settings, out=out, **QUIET)


@pytest.fixture(scope="module")
def run(scenes, tmp_path_factory):
    return train_captioner(scenes, tmp_path_factory.mktemp("run") / "run")


def test_captioner_on_features_is_trained_and_loaded(run, scenes):
    assert run.config["features"] == {"rows": 4, "columns": 4, "width": 3, "backbone": None}
    captions = run.caption(scenes / "unseen.npz", maps=True)
    assert len(captions) == 6
    assert all(caption.maps.shape[1:] == (4, 4) for caption in captions)
    repeated = regard.load(run.folder).caption(scenes / "unseen.npz")
    assert [caption.text for caption in repeated] == [caption.text for caption in captions]
    metrics = run.evaluate(scenes / "unseen.npz", scenes / "unseen.captions.tsv")
    assert metrics["rows"] == 6
    assert "4 x 4 x 3" in (run.folder / "README.md").read_text()


def test_look_at_features_without_an_image(run, scenes, tmp_path):
    with np.load(scenes / "unseen.npz", allow_pickle=False) as features, (tmp_path / "one.npy").open("wb") as file:
        np.lib.format.write_array(file, features[features.files[0]])
    page = run.look(tmp_path / "one.npy")
    assert page.data["axes"]["grid"]["grid"] == [4, 4]
    assert 'class="blank"' in page.html()
    assert "<image" not in page.svg()


def test_images_instead_of_features_are_errors_and_vice_versa(run, scenes, tmp_path):
    with pytest.raises(UserError, match="expects features of 4 x 4 x 3"):
        run.caption(scenes / "unseen.zip")
    np.savez(tmp_path / "other.npz", a=np.zeros((4, 4, 5)))
    with pytest.raises(UserError, match="4 x 4 x 5"):
        run.caption(tmp_path / "other.npz")
    image_run = train_captioner(scenes, tmp_path / "plain", "train.zip")
    with pytest.raises(UserError, match="expects images"):
        image_run.caption(scenes / "unseen.npz")
    settings, files = {"augment": {"flip": True}}, [scenes / "train.npz", scenes / "train.captions.tsv"]
    with pytest.raises(UserError, match="augment changes images"):
        regard.train("caption", files, steps=1, settings=settings, out=tmp_path / "x", **QUIET)


def test_image_classifier_on_features(scenes, tmp_path):
    settings = {"model": {"dim": 16, "heads": 2}, "data": {"batch": 16}}
    run = regard.train("images", scenes / "classes.npz", steps=3, settings=settings, out=tmp_path / "run", **QUIET)
    assert run.labels == ["even", "odd"]
    assert run.evaluate(scenes / "classes.npz")["rows"] == 60


# Backbones


class FakeBackbone(nn.Module):
    """A convolution over 8 x 8 pixels, whose output has one of several layouts."""

    num_features, num_prefix_tokens = 6, 1
    pretrained_cfg = {"mean": (0.5, 0.5, 0.5), "std": (0.25, 0.25, 0.25), "input_size": (3, 32, 32)}  # noqa: RUF012

    def __init__(self, layout: str):
        super().__init__()
        self.layout = layout
        self.conv = nn.Conv2d(3, 6, 8, 8)
        if layout == "fixed":
            self.pretrained_cfg = {**FakeBackbone.pretrained_cfg, "fixed_input_size": True, "input_size": (3, 224, 224)}
        if layout == "known":
            self.pretrained_cfg = {**FakeBackbone.pretrained_cfg, "hf_hub_id": "nobody/known"}

    def forward_features(self, x):
        y = self.conv(x)
        if self.layout == "row":
            return torch.cat((y.new_zeros(len(y), 1, 6), y.flatten(2).transpose(1, 2)), 1)
        return y.permute(0, 2, 3, 1) if self.layout == "last" else y


@pytest.fixture
def timm(monkeypatch, tmp_path):
    """A fake timm module, and a file of weights."""
    module = ModuleType("timm")
    module.is_model = lambda name: name in ("first", "last", "row", "fixed", "known")
    module.list_models = lambda pattern: ["first"]
    module.create_model = lambda name, pretrained, num_classes: FakeBackbone(name)
    monkeypatch.setitem(sys.modules, "timm", module)
    torch.manual_seed(1)
    model = FakeBackbone("first")
    save_file({**model.state_dict(), "fc.weight": torch.zeros(10, 6)}, tmp_path / "w.safetensors")
    return model, str(tmp_path / "w.safetensors")


@pytest.mark.parametrize("layout", ["first", "last", "row"])
def test_backbone_output_is_a_grid_for_each_layout(timm, layout):
    model, weights = timm
    images = np.random.default_rng(0).integers(0, 256, (40, 32, 32, 3)).astype(np.uint8)
    features = Backbone(layout, weights, size=32)(images)
    assert isinstance(features, np.memmap)
    with torch.no_grad():
        expected = model.conv((torch.from_numpy(images).permute(0, 3, 1, 2) / 255 - 0.5) / 0.25)
    np.testing.assert_allclose(features, expected.permute(0, 2, 3, 1).numpy(), atol=5e-3)


def test_captioner_with_a_backbone(timm, scenes, tmp_path):
    _, weights = timm
    run = train_captioner(scenes, tmp_path / "run", "train.zip", backbone="first", weights=weights)
    assert run.config["features"]["width"] == 6
    assert json.loads((tmp_path / "run" / "config.json").read_text())["settings"]["data"]["backbone"] == "first"
    loaded = regard.load(tmp_path / "run")
    assert loaded.caption(scenes / "unseen.zip")[0].text is not None
    file = tmp_path / "one.png"
    from regard.data import image_files

    source = image_files.open_images(scenes / "unseen.zip")
    file.write_bytes(source.open(source.names[0]))
    assert loaded.look(file, faithful=False).data["axes"]["grid"]["image"].startswith("data:image/jpeg")
    torch.manual_seed(2)
    save_file(FakeBackbone("first").state_dict(), weights)
    with pytest.raises(UserError, match="not those that the run was trained with"):
        loaded.caption(scenes / "unseen.zip")
    with pytest.raises(UserError, match="needs images, but features were given"):
        train_captioner(scenes, tmp_path / "no", "train.npz", backbone="first", weights=weights)


def test_invalid_backbones_are_errors(timm, tmp_path, monkeypatch):
    _, weights = timm
    save_file({"conv.weight": torch.zeros(6, 3, 8, 8)}, tmp_path / "part.safetensors")
    save_file({"conv.weight": torch.zeros(5, 3, 8, 8), "conv.bias": torch.zeros(5)}, tmp_path / "odd.safetensors")
    for name, file, message in (
        ("frist", weights, "no model 'frist'"),
        ("fixed", weights, "--size 224"),
        ("first", str(tmp_path / "gone.safetensors"), "cannot read weights"),
        ("first", str(tmp_path / "part.safetensors"), "lacks 1 tensors"),
        ("first", str(tmp_path / "odd.safetensors"), "does not fit"),
        ("first", None, "--weights FILE.safetensors"),
    ):
        with pytest.raises(UserError, match=message):
            Backbone(name, file, size=32)


def test_nothing_is_downloaded_without_download(timm, monkeypatch):
    hub = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
    downloads = []
    monkeypatch.setattr(hub, "try_to_load_from_cache", lambda home, file: None)
    monkeypatch.setattr(hub, "hf_hub_download", lambda home, file: downloads.append(home) or timm[1])
    with pytest.raises(UserError, match="--download"):
        Backbone("known", size=32)
    assert downloads == []
    Backbone("known", size=32, download=True)
    assert downloads == ["nobody/known"]
    data = SimpleNamespace(backbone="known", weights=None, size=32, download=True)  # settings of a loaded run
    with pytest.raises(UserError, match="not on this machine"):
        apply_backbone(np.zeros((1, 32, 32, 3), np.uint8), data, "another fingerprint")
    assert len(downloads) == 1


def test_missing_timm_is_an_error(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(UserError, match="pip install timm"):
        Backbone("resnet18", size=64)
