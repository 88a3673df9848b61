"""Images of all kinds: damaged, grayscale, CMYK, huge, animated, transparent, rotated; folders, zips, classes."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib

import numpy as np
import pytest
from PIL import Image

from regard.data import caption_files, image_files
from regard.errors import UserError


def picture(colour=(200, 30, 40), size=(20, 12), mode="RGB", form="PNG", **options) -> bytes:
    file = io.BytesIO()
    image = Image.new("RGB", size, colour).convert(mode)
    image.save(file, form, **options)
    return file.getvalue()


def bomb(width=60_000, height=60_000) -> bytes:
    """A PNG of a few bytes that says it has 3.6 billion pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")
    )


def test_images_are_resized_to_uint8():
    found = image_files.decode_image(picture(), 16)
    assert found.shape == (16, 16, 3)
    assert found.dtype == np.uint8
    assert (found == (200, 30, 40)).all()


@pytest.mark.parametrize(
    ("mode", "form", "said"),
    [("L", "PNG", "grayscale"), ("CMYK", "JPEG", "CMYK"), ("1", "PNG", "grayscale"), ("P", "GIF", "")],
)
def test_other_color_modes_become_rgb(mode, form, said):
    told: list[str] = []
    found = image_files.decode_image(picture((90, 90, 90), mode=mode, form=form), 16, told.append)
    assert found.shape == (16, 16, 3)
    assert abs(found.astype(int).mean() - 90) < (60 if mode == "1" else 4)  # black and white are mixed to about it
    assert [said in note for note in told] == ([True] if said else [])


def test_transparency_becomes_white():
    file = io.BytesIO()
    Image.new("RGBA", (8, 8), (255, 0, 0, 0)).save(file, "PNG")
    assert (image_files.decode_image(file.getvalue(), 8) == 255).all()


def test_16_bit_images_keep_their_brightness():
    file = io.BytesIO()
    Image.fromarray(np.full((8, 8), 32768, np.uint16)).save(file, "PNG")
    assert abs(int(image_files.decode_image(file.getvalue(), 8).mean()) - 127) <= 1


def test_exif_rotation_is_applied():
    values = np.zeros((16, 16, 3), np.uint8)
    values[:8] = 255  # light above
    file, exif = io.BytesIO(), Image.Exif()
    exif[0x0112] = 3  # upside down
    Image.fromarray(values).save(file, "JPEG", exif=exif, quality=95)
    found = image_files.decode_image(file.getvalue(), 16)
    assert found[12:].mean() > 240
    assert found[:4].mean() < 15


def test_first_frame_of_an_animation_is_used():
    frames = [Image.new("RGB", (9, 9), colour) for colour in ("red", "blue")]
    file, told = io.BytesIO(), []
    frames[0].save(file, "GIF", save_all=True, append_images=frames[1:])
    found = image_files.decode_image(file.getvalue(), 9, told.append)
    assert found[0, 0].tolist() == [255, 0, 0]
    assert "animated" in told[0]


@pytest.mark.parametrize(
    ("raw", "said"),
    [(b"", "damaged"), (b"no picture", "damaged"), (picture()[:40], "damaged"), (bomb(), "pixels are skipped")],
)
def test_unreadable_images_have_a_reason(raw, said):
    with pytest.raises(image_files.UnreadableImage, match=said):
        image_files.decode_image(raw, 16)


def test_decompression_bomb_is_rejected_by_its_size(monkeypatch):
    monkeypatch.setattr(image_files, "MAX_PIXELS", 100)
    with pytest.raises(image_files.UnreadableImage, match="more than 100 pixels"):
        image_files.decode_image(picture(size=(20, 12)), 16)


@pytest.fixture
def mixed(tmp_path):
    """Good and bad ones, as a folder and as a zip."""
    raws = {"good.png": picture(), "deep/other.jpg": picture((0, 0, 255), form="JPEG"), "broken.jpg": b"\xff\xd8\xff"}
    raws |= {"grey.png": picture((9, 9, 9), mode="L"), "bomb.png": bomb(), "notes.txt": b"no picture"}
    for name, raw in raws.items():
        (tmp_path / "all" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "all" / name).write_bytes(raw)
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        for name, raw in raws.items():
            archive.writestr(name, raw)
    return tmp_path


@pytest.mark.parametrize("kind", ["all", "all.zip"])
def test_bad_images_are_skipped_and_reported(mixed, kind):
    source = image_files.open_images(mixed / kind)
    found = image_files.read_images(source, source.names, 16)
    assert found.names == ["deep/other.jpg", "good.png", "grey.png"]
    assert isinstance(found.array, np.memmap)
    assert found.array.shape == (3, 16, 16, 3)
    assert (found.array[1] == (200, 30, 40)).all()
    notes = "\n".join(found.notes)
    assert "1 images are damaged and are skipped: broken.jpg" in notes
    assert "pixels are skipped: bomb.png" in notes
    assert "grey.png" in notes


def test_large_zip_entry_is_skipped(tmp_path, monkeypatch):
    monkeypatch.setattr(image_files, "MAX_BYTES", 1000)
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("large.png", b"\0" * 5000)
        archive.writestr("small.png", picture())
    source = image_files.open_images(tmp_path / "a.zip")
    found = image_files.read_images(source, source.names, 16)
    assert found.names == ["small.png"]
    assert "images larger than" in found.notes[0]


def test_same_images_have_the_same_fingerprint(mixed):
    source = image_files.open_images(mixed / "all")
    first, again = (image_files.read_images(source, ["good.png", "grey.png"], 16).fingerprint for _ in range(2))
    assert first == again
    assert image_files.read_images(source, ["good.png"], 16).fingerprint != first
    assert image_files.read_images(source, ["good.png", "grey.png"], 32).fingerprint != first


@pytest.mark.parametrize(
    ("make", "said"), [("none", "no such folder"), ("empty", "contains no images"), ("cut.zip", "not a zip")]
)
def test_no_images_is_an_error(tmp_path, make, said):
    if make == "empty":
        (tmp_path / make).mkdir()
    if make == "cut.zip":
        (tmp_path / make).write_bytes(b"PK\3\4 and no more")
    with pytest.raises(UserError, match=said):
        image_files.open_images(tmp_path / make)


def test_classes_are_subfolders(tmp_path):
    for name in ("cats/a.png", "cats/b.png", "dogs/a.png", "loose.png", ".hidden/a.png", "__MACOSX/a.png"):
        (tmp_path / "p" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "p" / name).write_bytes(picture())
    _, names, labels, notes = image_files.list_images_by_class(tmp_path / "p")
    assert notes == ["1 images are not in the subfolder of a class and are skipped: loose.png"]
    assert dict(zip(names, labels, strict=True)) == {"cats/a.png": "cats", "cats/b.png": "cats", "dogs/a.png": "dogs"}
    with zipfile.ZipFile(tmp_path / "p.zip", "w") as archive:  # everything in one folder of the zip
        for name in ("p/cats/a.png", "p/dogs/b.png"):
            archive.writestr(name, picture())
    assert image_files.list_images_by_class(tmp_path / "p.zip")[2] == ["cats", "dogs"]
    with pytest.raises(UserError, match="two classes"):
        image_files.list_images_by_class(tmp_path / "p" / "cats")


def test_damaged_zip_entry_is_skipped(tmp_path):
    with zipfile.ZipFile(tmp_path / "p.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("a.bmp", "b.bmp"):
            raw = io.BytesIO()
            Image.effect_noise((40, 40), 60).convert("RGB").save(raw, "BMP")
            archive.writestr(name, raw.getvalue())
        place = archive.getinfo("b.bmp").header_offset + 60
    raw = bytearray((tmp_path / "p.zip").read_bytes())
    raw[place : place + 200] = bytes(200)
    (tmp_path / "p.zip").write_bytes(bytes(raw))
    source = image_files.open_images(tmp_path / "p.zip")
    found = image_files.read_images(source, source.names, 16)
    assert found.names == ["a.bmp"]
    assert "b.bmp" in found.notes[0]


def test_16_bit_images_of_any_byte_order():
    values = np.linspace(0, 65535, 64, dtype=np.uint16).reshape(8, 8)
    for kind in ("<u2", ">u2"):
        raw = io.BytesIO()
        Image.fromarray(values.astype(kind)).save(raw, "TIFF")
        assert abs(image_files.decode_image(raw.getvalue(), 8).mean() - 127) < 3


# Captions


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("A man's T-shirt , isn’t it ?", "a man's t-shirt isn't it"),
        ("हिन्दी में", "हिन्दी में"),
        ("3.5 metres, 1,000 dogs.", "3.5 metres 1,000 dogs"),
        ("rock--roll -- 'n' _x_ !", "rock roll n x"),
        ("...", ""),
    ],
)
def test_normalize_caption(text, words):
    assert caption_files.normalize_caption(text) == words


COCO = '{"images": [{"id": 1, "file_name": "a.png"}], "annotations": [{"image_id": 1, "caption": "x"}]}'


@pytest.mark.parametrize(
    ("name", "text", "caption"),
    [
        ("a.csv", "a.png,A man, a dog and a cat\nb.png,x\n", "A man, a dog and a cat"),
        ("b.csv", "a.png,0,A man\nb.png,1,x\n", "A man"),
        ("c.csv", "image,caption,by\na.png,A man,me\nb.png,x, y,me\n", "A man"),
        ("f.csv", "image,caption,by\na.png,A man, a dog,me\n", "A man, a dog"),
        ("d.tsv", "a.png\tA man\tand more\n", "A man\tand more"),
        (
            "e.json",
            '{"images": [{"id": 1, "file_name": "a.png"}], "annotations": [{"image_id": 1, "caption": null}]}',
            "",
        ),
    ],
)
def test_caption_column_is_found(tmp_path, name, text, caption):
    (tmp_path / name).write_text(text)
    assert caption_files.read_captions(tmp_path / name)[0][0] == ("a.png", caption)


@pytest.mark.parametrize(
    ("name", "raw", "said"),
    [
        ("a.csv", b'a.png,"' + b"x" * 200_000, "not a valid CSV file"),
        ("b.json", b'{"images": [], "annotations": [{"image_id": 1, "caption": ["x"]}]}', "not a string"),
        ("c.json", b"[" * 100_000, "not COCO"),
        ("d.tsv.gz", b"\x1f\x8b\x08\x00" + b"x" * 30, "cannot read the caption file"),
    ],
)
def test_unreadable_caption_files_are_errors(tmp_path, name, raw, said):
    (tmp_path / name).write_bytes(raw)
    with pytest.raises(UserError, match=said):
        caption_files.read_captions(tmp_path / name)


def test_captions_are_matched_with_images(mixed):
    table = (
        "good.png\tA red  Square, isn't it .\nother.jpg#1\tBlue!\ngood.png\tRed\ngone.png\tno picture\ngrey.png\t. \n"
    )
    (mixed / "c.tsv").write_text(table)
    found = caption_files.read_captioned_images(mixed / "all", mixed / "c.tsv", 16)
    assert found.names == ["good.png", "deep/other.jpg"]
    assert found.captions == [["a red square isn't it", "red"], ["blue"]]
    notes = "\n".join(found.notes)
    assert "1 captions have no image and are skipped: gone.png" in notes
    assert "1 captions are empty and are skipped: grey.png" in notes
    assert "3 images have no caption" in notes


def test_csv_and_coco_give_the_same_captions(mixed):
    (mixed / "c.csv").write_text('image,caption\ngood.png,"a red square, really"\n')
    (mixed / "c.json").write_text(
        '{"images": [{"id": 7, "file_name": "good.png"}], '
        '"annotations": [{"image_id": 7, "caption": "A red square, really."}, {"image_id": 8, "caption": "lost"}]}'
    )
    for name in ("c.csv", "c.json"):
        assert caption_files.read_captioned_images(mixed / "all", mixed / name, 16).captions == [
            ["a red square really"]
        ]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.tsv", "good.png a red square\n", "a tab and a caption"),
        ("a.tsv", "", "contains no captions"),
        ("a.tsv", "other\tone\n", "names an image"),
        ("a.json", "{}", "COCO"),
        ("a.json", "[", "COCO"),
        ("a.json", '{"images": [3], "annotations": []}', "COCO"),
    ],
)
def test_invalid_caption_files_are_errors(mixed, name, text, said):
    (mixed / name).write_text(text)
    with pytest.raises(UserError, match=said):
        caption_files.read_captioned_images(mixed / "all", mixed / name, 16)


def test_boxes_are_read_and_checked(tmp_path):
    (tmp_path / "b.tsv").write_text("a.png\t1\t0.1\t0.2\t0.3\t0.4\n")
    assert caption_files.read_boxes(tmp_path / "b.tsv") == {"a.png": [(1, (0.1, 0.2, 0.3, 0.4))]}
    (tmp_path / "b.tsv").write_text("a.png\t1\t0.1\n")
    with pytest.raises(UserError, match="line 1"):
        caption_files.read_boxes(tmp_path / "b.tsv")
