"""Precomputed image features are read without pickle and within limits."""

from __future__ import annotations

import io
import zipfile

import numpy as np
import pytest
from safetensors.numpy import save_file

from regard.data import caption_files, image_features, image_files, image_source
from regard.errors import UserError

RANDOM = np.random.default_rng(0)
ARRAYS = {f"{name}.jpg": RANDOM.normal(size=(2, 3, 4)).astype(np.float32) for name in ("a", "b", "c")}


@pytest.fixture(params=["npz", "safetensors", "folder"])
def kept(request, tmp_path):
    path = tmp_path / {"npz": "f.npz", "safetensors": "f.safetensors", "folder": "f"}[request.param]
    if request.param == "npz":
        np.savez_compressed(path, **ARRAYS)
    elif request.param == "safetensors":
        save_file(ARRAYS, path)
    else:
        path.mkdir()
        for name, array in ARRAYS.items():
            with (path / name.replace(".jpg", ".npy")).open("wb") as file:
                np.lib.format.write_array(file, np.asfortranarray(array))
    return path


def test_all_file_formats_give_the_same_arrays(kept):
    assert image_source.contains_images(kept)
    assert not image_files.contains_images(kept)
    source = image_source.open_image_source(kept)
    found = image_source.read_images_or_features(source, source.names, 64)
    assert isinstance(found.array, np.memmap)
    assert found.array.shape == (3, 2, 3, 4)
    np.testing.assert_allclose(found.array, np.stack(list(ARRAYS.values())), atol=2e-3)
    assert found.fingerprint == image_source.read_images_or_features(source, source.names, 32).fingerprint
    assert source.find("deep/b.png") == source.names[1]
    assert source.find("d.jpg") is None


def test_captions_find_features_by_image_name(kept, tmp_path):
    (tmp_path / "c.tsv").write_text("b.jpg\ta dog\na.jpg\ta cat\ngone.jpg\tnothing\n")
    found = caption_files.read_captioned_images(kept, tmp_path / "c.tsv", 64)
    assert found.captions == [["a dog"], ["a cat"]]
    np.testing.assert_allclose(found.images[0], ARRAYS["b.jpg"], atol=2e-3)
    assert any("no image" in note and "gone.jpg" in note for note in found.notes)
    assert any("no caption" in note for note in found.notes)
    assert found.subset([1]).images.dtype == np.float16


@pytest.mark.parametrize(("shape", "wanted"), [((7,), (1, 1, 7)), ((9, 5), (3, 3, 5)), ((2, 3, 5), (2, 3, 5))])
def test_shapes_become_grids(shape, wanted):
    assert image_features.to_grid(np.zeros(shape)).shape == wanted


def bomb() -> bytes:
    """The head of an array of ten thousand million numbers, and no more."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"shape": (100_000, 100_000), "fortran_order": False, "descr": "<f4"})
    return file.getvalue()


def saved(array: np.ndarray, pickled: bool = False) -> bytes:
    file = io.BytesIO()
    np.lib.format.write_array(file, array, allow_pickle=pickled)
    return file.getvalue()


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (bomb(), "numbers are skipped"),
        (saved(np.array([{"a": 1}], object), pickled=True), "not numeric"),
        (saved(np.array(["word"])), "not numeric"),
        (saved(np.full((2, 3, 4), np.nan)), "infinite"),
        (saved(np.full((2, 3, 4), 1e9)), "infinite"),
        (saved(np.zeros((2, 5, 4))), "do not have the shape"),
        (saved(np.zeros((7, 4))), "neither"),
        (saved(np.zeros((2, 3, 4)))[:-8], "truncated"),
        (b"no array", "damaged"),
    ],
)
def test_unusable_arrays_are_skipped_and_reported(tmp_path, raw, said):
    with zipfile.ZipFile(tmp_path / "f.npz", "w") as archive:
        archive.writestr("a.jpg.npy", saved(ARRAYS["a.jpg"]))
        archive.writestr("bad.jpg.npy", raw)
    source = image_features.open_features(tmp_path / "f.npz")
    found = image_features.read_features(source, source.names)
    assert found.names == ["a.jpg"]
    assert len(found.notes) == 1
    assert said in found.notes[0]
    assert "bad.jpg" in found.notes[0]


@pytest.mark.parametrize(
    ("name", "raw", "said"),
    [("f.npz", b"PK", "not an .npz file"), ("f.safetensors", b"\x01" * 9, "not a safetensors file")],
)
def test_invalid_feature_files_are_errors(tmp_path, name, raw, said):
    (tmp_path / name).write_bytes(raw)
    with pytest.raises(UserError, match=said):
        image_source.open_image_source(tmp_path / name)


def test_no_readable_array_is_an_error(tmp_path):
    np.savez(tmp_path / "f.npz", a=np.array(["x"]))
    source = image_source.open_image_source(tmp_path / "f.npz")
    with pytest.raises(UserError, match=r"no array of .* can be read"):
        image_source.read_images_or_features(source, source.names, 64)


def test_classes_may_be_folders_of_features(tmp_path):
    np.savez(tmp_path / "f.npz", **{f"{label}/{i}": np.zeros((2, 2, 3)) for label in ("x", "y") for i in range(2)})
    _, names, labels, _ = image_files.list_images_by_class(
        tmp_path / "f.npz", image_source.open_image_source(tmp_path / "f.npz")
    )
    assert labels == ["x", "x", "y", "y"]
    assert names[0] == "x/0"
