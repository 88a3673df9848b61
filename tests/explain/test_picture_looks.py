"""Looks into models of pictures: what is erased, what is asked, the figures beside it, and the page in a browser."""

from __future__ import annotations

import base64
import io
import json

import numpy as np
import pytest
import torch
from PIL import Image
from small_pictures import CLASSES, IDS, one, sorted_, told

from regard.errors import UserError
from regard.explain.build import seen_by
from regard.explain.interventions import parse
from regard.explain.subject import Picture
from regard.inspect import edit, record, uniform
from regard.inspect.image_gradients import image_gradients
from regard.pages.image_overlay import veil
from regard.tasks.caption.objective import word_maps
from regard.tasks.classify.look import Look
from regard.tasks.images.look import Sorted

FOUR = ["comprehensiveness", "sufficiency", "leave-one-out", "gradients"]


@pytest.fixture(scope="module")
def classes():
    subject = sorted_()
    return Look(seen_by(subject)), subject


@pytest.fixture(scope="module")
def caption():
    subject = told()
    return Look(seen_by(subject)), subject


def test_erased_places_take_the_mean_colour_and_nothing_else_does():
    subject = sorted_()
    assert subject.grid == (6, 6)
    kept = np.setdiff1d(np.arange(36), [0, 8])  # the first, and row 2, column 3
    made = subject.without([kept])[0].numpy()
    wanted = one().array.astype(np.float32)
    wanted[:4, :4] = wanted[4:8, 8:12] = one().array.mean((0, 1))
    np.testing.assert_allclose(made, wanted, atol=1e-3)
    mask = np.ones(36, bool)
    mask[[0, 8]] = False
    with torch.no_grad():
        said = subject.net(torch.from_numpy(wanted)[None]).logits[0].softmax(-1)
    assert subject.predict([mask])[0, 0] == pytest.approx(float(said[subject.target]), abs=1e-5)


def test_gradients_of_a_picture_are_those_of_captum_and_add_up():
    captum = pytest.importorskip("captum.attr", reason="captum is not installed")
    subject = sorted_()
    mine = image_gradients(subject.pixels, subject.base, subject.asked, steps=200)[0]
    theirs = captum.IntegratedGradients(lambda x: subject.asked(x)[:, 0]).attribute(
        subject.pixels[None], subject.base[None].contiguous(), n_steps=200, method="riemann_middle"
    )
    torch.testing.assert_close(mine, theirs[0].sum(-1).float(), atol=1e-4, rtol=1e-3)
    with torch.no_grad():
        whole = subject.asked(subject.pixels[None]) - subject.asked(subject.base[None])
    assert float(mine.sum()) == pytest.approx(float(whole), abs=5e-3)
    by_place = subject.slopes(rows=10, steps=200)[0].unflatten(0, (6, 6))
    torch.testing.assert_close(by_place[1, 2], mine[4:8, 8:12].sum(), atol=1e-5, rtol=1e-4)


def test_the_picture_of_a_class_is_what_is_pooled(classes):
    look, subject = classes
    with torch.no_grad(), record(subject.net) as seen:
        logits = subject.net(subject.pixels[None]).logits[0]
    assert look.data["weights"] == pytest.approx(seen["pool.attend"][0, 0, 0].tolist(), abs=1e-6)
    assert [row["measure"] for row in look.data["faithfulness"]["rows"]] == FOUR
    assert look.data["prediction"]["label"] == CLASSES[int(logits.argmax())]
    assert "places" in look.data["faithfulness"]["rows"][0]["explain"]
    kinds = {(m["site"], m["rows"], m["columns"]) for m in look.data["maps"]}
    assert ("image_encoder.layers.0.attention.attend", "grid", "grid") in kinds
    assert ("pool.attend", "hops", "grid") in kinds
    assert ("rollout of the grid", "grid", "grid") in kinds
    assert set(look.data["instead"]) == {"gradients", "leaving places out"}


def test_another_class_can_be_asked_about_and_an_unknown_one_not():
    assert sorted_(label="boat").labels == ["boat"]
    with pytest.raises(UserError, match="'boat'"):
        sorted_(label="boot")


LIT = [2, 9, 14, 21, 28, 33]


class Lamps(Sorted):
    """It says how light some places are, and its picture points at places."""

    points_at = LIT

    def asked(self, pictures):
        self.net(pictures)  # which has maps
        return pictures[:, torch.isin(self.cell, torch.tensor(LIT))].mean((1, 2))[:, None] / 255

    def picture(self, seen):
        weights = np.full((1, 36), 0.01)
        weights[0, self.points_at] = 0.1
        return Picture(weights, "by hand")


@pytest.mark.parametrize(("points_at", "faithful"), [(LIT, True), ([0, 3, 7, 16, 26, 35], False)])
def test_a_picture_that_points_at_what_counts_is_faithful_and_another_is_not(points_at, faithful):
    subject = sorted_()
    subject.__class__ = Lamps
    subject.pixels[torch.isin(subject.cell, torch.tensor(LIT))] = 255.0
    subject.points_at = points_at
    seen = seen_by(subject, heads=False)
    assert ("is a faithful explanation" in seen["faithfulness"]["sentence"]) is faithful
    for way in ("leaving places out", "gradients"):
        assert sorted(np.argsort(seen["instead"][way])[-6:].tolist()) == LIT


def test_changes_hide_places_and_edit_heads():
    subject = sorted_()
    made = seen_by(subject, faithful=False, heads=False, changes=["hide:2,3", parse("uniform:all")])["changes"]
    kept = np.ones(36, bool)
    kept[8] = False
    assert made[0]["after"] == pytest.approx(subject.predict([kept])[0, 0])
    from contextlib import ExitStack

    with ExitStack() as stack:
        for site in ("image_encoder.layers.0.attention.attend", "image_encoder.layers.1.attention.attend", "pool.attend"):
            stack.enter_context(edit(subject.net, site, uniform()))
        assert made[1]["after"] == pytest.approx(subject.whole()[0], abs=1e-6)
        assert made[2]["after"] == pytest.approx(subject.predict([kept])[0, 0], abs=1e-6)
    with pytest.raises(UserError, match="9,9"):
        seen_by(subject, faithful=False, changes=["hide:9,9"])


def test_words_of_a_caption_are_asked_by_their_own_maps(caption):
    look, subject = caption
    ids = torch.tensor([[2, *IDS]])
    with torch.no_grad():
        logits = subject.net(subject.pixels[None], ids)[0].log_softmax(-1)
    wanted = [float(logits[t, word]) for t, word in enumerate(IDS)]
    assert [q["log_p"] for q in look.data["questions"]] == pytest.approx(wanted, abs=1e-5)
    maps = word_maps(subject.net, subject.pixels[None], [[*IDS, 3]])[0]
    for question, map_ in zip(look.data["questions"], maps, strict=False):
        assert question["weights"] == pytest.approx(map_.ravel().tolist(), abs=1e-5)
        assert [row["measure"] for row in question["faithfulness"]["rows"]] == FOUR
    assert look.data["caption"] == "w7 w9 w8 w11"
    assert {(m["rows"], m["columns"]) for m in look.data["maps"]} == {("grid", "grid"), ("said", "grid")}


def test_a_picture_is_drawn_with_its_veil(classes):
    look, _ = classes
    weights = np.array(look.data["weights"]).reshape(6, 6)
    _, whole = veil(weights)
    assert whole[np.unravel_index(weights.argmax(), (6, 6))] == pytest.approx(0.4)
    assert f"row 2, column 3: {weights[1, 2]:.4g}" in look.svg()
    with Image.open(io.BytesIO(look.png())) as painted:
        assert painted.size == (512, 512)
    assert look.svg().count("<rect") == 37
    assert json.loads(look.json())["cells"] == "grid"
    assert look.csv().splitlines()[9].startswith('8,"2,3"')


def test_tokens_must_be_the_cells_of_a_grid(classes):
    look, _ = classes
    with pytest.raises(UserError, match="cells of an axis"):
        Look({**look.data, "cells": "nothing"}).html()


@pytest.mark.browser
def test_a_place_is_chosen_and_shows_where_it_looks(classes, show):
    look, _ = classes
    opened = show(look)
    box = opened.page.locator("#text .stage canvas").bounding_box()

    def at(cell: int) -> dict:
        return {"x": (cell % 6 + 0.5) * box["width"] / 6, "y": (cell // 6 + 0.5) * box["height"] / 6}

    for cell in (0, 8, 35):
        opened.page.locator("#text .stage canvas").hover(position=at(cell))
        said = opened.page.evaluate("({...document.getElementById('place').dataset})")
        assert (int(said["cell"]), float(said["value"])) == (cell, pytest.approx(look.data["weights"][cell]))
        assert "without it p(" in opened.page.inner_text("#place")
    opened.page.locator("#text .stage canvas").click(position=at(8))
    opened.page.wait_for_selector('#image[data-row="8"]')
    assert "row=8" in opened.page.evaluate("location.hash")
    opened.page.click('#try [data-try="hide"]')
    assert opened.page.inner_text("#try-say") == "regard look runs/attention photo.png --what-if hide:2,3"
    exact = look.maps()["image_encoder.layers.0.attention.attend"][0, 8]
    box = opened.page.locator("#over").bounding_box()
    for cell in (3, 20):
        opened.page.locator("#over").hover(position=at(cell))
        said = opened.page.evaluate("({...document.getElementById('image-say').dataset})")
        assert int(said["cell"]) == cell
        assert float(said["value"]) == pytest.approx(exact[cell], abs=1e-6)
    opened.page.locator("#over").click(position=at(20))
    opened.page.wait_for_selector('#image[data-row="20"]')
    for view in ("map", "lines", "distance"):
        opened.page.click(f'#view label:has(input[value="{view}"])')
        opened.until(3, view)
    opened.page.click('#by label:has(input[value="gradients"])')
    peak = max(look.data["instead"]["gradients"])
    assert f"0 to {peak:.3g}"[:7] in opened.page.inner_text("#strongest")
    with opened.page.expect_download() as download:
        opened.page.click("#save-over")
    assert download.value.suggested_filename == "photo-png.png"
    assert opened.errors == []


@pytest.mark.browser
def test_distances_in_a_picture_are_as_the_crow_flies(classes, show):
    look, _ = classes
    opened = show(look, "#view=distance&head=1&mode=single&site=image_encoder.layers.1.attention.attend")
    opened.page.wait_for_selector("#distance circle")
    weights = look.maps()["image_encoder.layers.1.attention.attend"][1].astype(float)
    y, x = np.divmod(np.arange(36), 6)
    far = np.round(np.hypot(y[:, None] - y, x[:, None] - x)).astype(int)
    shares = [weights[far == d].sum() / 36 for d in range(far.max() + 1)]
    read = opened.page.evaluate(
        "[...document.querySelectorAll('#distance circle')].map((c) => [Number(c.dataset.at), Number(c.dataset.share)])"
    )
    assert read[0][0] == 0
    assert [share for _, share in read] == pytest.approx(shares[: len(read)], abs=1e-5)
    assert opened.errors == []


@pytest.mark.browser
def test_a_word_of_the_caption_is_asked_about(caption, show):
    look, _ = caption
    opened = show(look)
    opened.page.click('#asked button[data-question="2"]')
    opened.page.wait_for_function("document.querySelector('#faithfulness .verdict').textContent.startsWith('“w8”')")
    strongest = int(np.argmax(look.data["questions"][2]["weights"]))
    assert f"row {strongest // 6 + 1}, column {strongest % 6 + 1}" in opened.page.inner_text("#strongest")
    again = show(look, "#word=2&site=decoder.attention.attend")  # the address keeps it
    assert f"row {strongest // 6 + 1}, column {strongest % 6 + 1}" in again.page.inner_text("#strongest")
    again.page.wait_for_selector('#image[data-row="2"]')
    row = opened.page.inner_text("#faithfulness .measures tbody tr >> nth=0")
    assert f"{look.data['questions'][2]['faithfulness']['rows'][0]['attention']:.3f}" in row
    assert opened.errors == []


@pytest.mark.browser
def test_two_runs_on_one_picture(show, classes):
    look, _ = classes
    opened = show(look.beside(Look(seen_by(sorted_(1), faithful=False))))
    sizes = opened.page.evaluate(
        "[...document.querySelectorAll('#other .stage canvas')].map((c) => [c.width, c.height])"
    )
    assert sizes == [[6, 6]] * 3
    assert opened.errors == []


def test_the_picture_is_part_of_the_page(classes):
    look, _ = classes
    raw = base64.b64decode(look.data["axes"]["grid"]["picture"].partition(",")[2])
    with Image.open(io.BytesIO(raw)) as image:
        assert image.size == (96, 96)
    assert look.html().count(look.data["axes"]["grid"]["picture"][:60]) >= 1
