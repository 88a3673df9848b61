"""Runs on features of pictures: given in a file, or made by a backbone of timm (here a small one that stands in)."""

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
    """Pictures, and features of them: how red, green and blue each of 4 x 4 places is."""
    folder = tmp_path_factory.mktemp("scenes")
    write_scenes(folder, 60, eval_count=6, size=32)
    from regard.data import image_files

    for part in ("train", "unseen"):
        source = image_files.open_images(folder / f"{part}.zip")
        found = image_files.read_images(source, source.names, 32)
        means = found.array.reshape(-1, 4, 8, 4, 8, 3).mean((2, 4)) / 64
        np.savez(folder / f"{part}.npz", **dict(zip(found.names, means.astype(np.float32), strict=True)))
        (folder / "classes").mkdir(exist_ok=True)
    some = np.load(folder / "train.npz", allow_pickle=False)
    np.savez(folder / "classes.npz", **{f"{('odd', 'even')[i % 2]}/{n}": some[n] for i, n in enumerate(some)})
    return folder


def captioned(scenes, out, data="train.npz", **data_settings):
    files = [scenes / data, scenes / "train.captions.tsv"]
    settings = {"model": MODEL, "data": {"size": 32, "batch": 16, **data_settings}, "train": {"lr": 0.02}}
    return regard.train("caption", files, steps=20, settings=settings, out=out, **QUIET)


@pytest.fixture(scope="module")
def run(scenes, tmp_path_factory):
    return captioned(scenes, tmp_path_factory.mktemp("run") / "run")


def test_a_captioner_learns_from_features_and_comes_back(run, scenes):
    assert run.config["features"] == {"rows": 4, "columns": 4, "width": 3, "backbone": None}
    found = run.caption(scenes / "unseen.npz", maps=True)
    assert len(found) == 6
    assert all(one.maps.shape[1:] == (4, 4) for one in found)
    again = regard.load(run.folder).caption(scenes / "unseen.npz")
    assert [one.text for one in again] == [one.text for one in found]
    measured = run.evaluate(scenes / "unseen.npz", scenes / "unseen.captions.tsv")
    assert measured["rows"] == 6
    assert "4 x 4 x 3" in (run.folder / "README.md").read_text()


def test_features_can_be_looked_at_without_their_picture(run, scenes, tmp_path):
    with np.load(scenes / "unseen.npz", allow_pickle=False) as some, (tmp_path / "one.npy").open("wb") as file:
        np.lib.format.write_array(file, some[some.files[0]])
    seen = run.look(tmp_path / "one.npy")
    assert seen.data["axes"]["grid"]["grid"] == [4, 4]
    assert 'class="blank"' in seen.html()
    assert "<image" not in seen.svg()


def test_pictures_and_features_are_not_taken_for_each_other(run, scenes, tmp_path):
    with pytest.raises(UserError, match="reads features of 4 x 4 x 3"):
        run.caption(scenes / "unseen.zip")
    np.savez(tmp_path / "other.npz", a=np.zeros((4, 4, 5)))
    with pytest.raises(UserError, match="4 x 4 x 5"):
        run.caption(tmp_path / "other.npz")
    plain = captioned(scenes, tmp_path / "plain", "train.zip")
    with pytest.raises(UserError, match="reads pictures"):
        plain.caption(scenes / "unseen.npz")
    settings, files = {"augment": {"flip": True}}, [scenes / "train.npz", scenes / "train.captions.tsv"]
    with pytest.raises(UserError, match="augment changes pictures"):
        regard.train("caption", files, steps=1, settings=settings, out=tmp_path / "x", **QUIET)


def test_classes_are_learnt_from_features(scenes, tmp_path):
    settings = {"model": {"dim": 16, "heads": 2}, "data": {"batch": 16}}
    run = regard.train("images", scenes / "classes.npz", steps=3, settings=settings, out=tmp_path / "run", **QUIET)
    assert run.labels == ["even", "odd"]
    assert run.evaluate(scenes / "classes.npz")["rows"] == 60


# A backbone


class Small(nn.Module):
    """Means of 8 x 8 points through a matrix, laid out as `lays` says."""

    num_features, num_prefix_tokens = 6, 1
    pretrained_cfg = {"mean": (0.5, 0.5, 0.5), "std": (0.25, 0.25, 0.25), "input_size": (3, 32, 32)}  # noqa: RUF012

    def __init__(self, lays: str):
        super().__init__()
        self.lays = lays
        self.conv = nn.Conv2d(3, 6, 8, 8)
        if lays == "fixed":
            self.pretrained_cfg = {**Small.pretrained_cfg, "fixed_input_size": True, "input_size": (3, 224, 224)}
        if lays == "known":
            self.pretrained_cfg = {**Small.pretrained_cfg, "hf_hub_id": "nobody/known"}

    def forward_features(self, x):
        y = self.conv(x)
        if self.lays == "row":
            return torch.cat((y.new_zeros(len(y), 1, 6), y.flatten(2).transpose(1, 2)), 1)
        return y.permute(0, 2, 3, 1) if self.lays == "last" else y


@pytest.fixture
def timm(monkeypatch, tmp_path):
    """A module that stands in for timm, and a file of weights."""
    module = ModuleType("timm")
    module.is_model = lambda name: name in ("first", "last", "row", "fixed", "known")
    module.list_models = lambda pattern: ["first"]
    module.create_model = lambda name, pretrained, num_classes: Small(name)
    monkeypatch.setitem(sys.modules, "timm", module)
    torch.manual_seed(1)
    net = Small("first")
    save_file({**net.state_dict(), "fc.weight": torch.zeros(10, 6)}, tmp_path / "w.safetensors")
    return net, str(tmp_path / "w.safetensors")


@pytest.mark.parametrize("lays", ["first", "last", "row"])
def test_features_are_a_grid_however_they_are_laid_out(timm, lays):
    net, weights = timm
    pictures = np.random.default_rng(0).integers(0, 256, (40, 32, 32, 3)).astype(np.uint8)
    made = Backbone(lays, weights, size=32)(pictures)
    assert isinstance(made, np.memmap)
    with torch.no_grad():
        wanted = net.conv((torch.from_numpy(pictures).permute(0, 3, 1, 2) / 255 - 0.5) / 0.25)
    np.testing.assert_allclose(made, wanted.permute(0, 2, 3, 1).numpy(), atol=5e-3)


def test_a_captioner_reads_pictures_by_a_backbone(timm, scenes, tmp_path):
    _, weights = timm
    run = captioned(scenes, tmp_path / "run", "train.zip", backbone="first", weights=weights)
    assert run.config["features"]["width"] == 6
    assert json.loads((tmp_path / "run" / "config.json").read_text())["settings"]["data"]["backbone"] == "first"
    again = regard.load(tmp_path / "run")
    assert again.caption(scenes / "unseen.zip")[0].text is not None
    one = tmp_path / "one.png"
    from regard.data import image_files

    source = image_files.open_images(scenes / "unseen.zip")
    one.write_bytes(source.open(source.names[0]))
    assert again.look(one, faithful=False).data["axes"]["grid"]["picture"].startswith("data:image/jpeg")
    torch.manual_seed(2)
    save_file(Small("first").state_dict(), weights)
    with pytest.raises(UserError, match="not those that this run was trained with"):
        again.caption(scenes / "unseen.zip")
    with pytest.raises(UserError, match="features of them were given"):
        captioned(scenes, tmp_path / "no", "train.npz", backbone="first", weights=weights)


def test_what_a_backbone_lacks_is_said(timm, tmp_path, monkeypatch):
    _, weights = timm
    save_file({"conv.weight": torch.zeros(6, 3, 8, 8)}, tmp_path / "part.safetensors")
    save_file({"conv.weight": torch.zeros(5, 3, 8, 8), "conv.bias": torch.zeros(5)}, tmp_path / "odd.safetensors")
    for name, file, said in (
        ("frist", weights, "no model 'frist'"),
        ("fixed", weights, "--size 224"),
        ("first", str(tmp_path / "gone.safetensors"), "cannot read weights"),
        ("first", str(tmp_path / "part.safetensors"), "lacks 1 tensors"),
        ("first", str(tmp_path / "odd.safetensors"), "does not fit"),
        ("first", None, "--weights FILE.safetensors"),
    ):
        with pytest.raises(UserError, match=said):
            Backbone(name, file, size=32)


def test_nothing_is_fetched_unless_asked_for(timm, monkeypatch):
    hub = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
    asked = []
    monkeypatch.setattr(hub, "try_to_load_from_cache", lambda home, file: None)
    monkeypatch.setattr(hub, "hf_hub_download", lambda home, file: asked.append(home) or timm[1])
    with pytest.raises(UserError, match="--download"):
        Backbone("known", size=32)
    assert asked == []
    Backbone("known", size=32, download=True)
    assert asked == ["nobody/known"]
    opened = SimpleNamespace(backbone="known", weights=None, size=32, download=True)  # of a run that another trained
    with pytest.raises(UserError, match="not on this machine"):
        apply_backbone(np.zeros((1, 32, 32, 3), np.uint8), opened, known="its fingerprint")
    assert len(asked) == 1


def test_without_timm_it_is_said_what_to_install(monkeypatch):
    def missing(name):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(UserError, match="pip install timm"):
        Backbone("resnet18", size=64)
