"""Looks of image models: erased cells, gradients, metrics, interventions, and the page in a browser."""

from __future__ import annotations

import base64
import io
import json

import numpy as np
import pytest
import torch
from PIL import Image
from small_image_explainers import CLASSES, IDS, caption_explainer, image_classifier_explainer, random_image

from regard.errors import UserError
from regard.explain.build import build_look
from regard.explain.explainer import Attribution
from regard.explain.interventions import parse_intervention
from regard.explain.look_result import Look
from regard.inspect import edit, record, uniform
from regard.inspect.image_gradients import image_gradients
from regard.pages.image_overlay import overlay_colors
from regard.tasks.caption.objective import compute_word_maps
from regard.tasks.images.look import ImageClassifierExplainer

METRICS = ["comprehensiveness", "sufficiency", "leave-one-out", "gradients"]


@pytest.fixture(scope="module")
def classes():
    explainer = image_classifier_explainer()
    return build_look(explainer), explainer


@pytest.fixture(scope="module")
def caption():
    explainer = caption_explainer()
    return build_look(explainer), explainer


def test_only_erased_cells_take_the_mean_color():
    explainer = image_classifier_explainer()
    assert explainer.grid == (6, 6)
    mask = np.setdiff1d(np.arange(36), [0, 8])  # the first, and row 2, column 3
    results = explainer.erase([mask])[0].numpy()
    expected = random_image().array.astype(np.float32)
    expected[:4, :4] = expected[4:8, 8:12] = random_image().array.mean((0, 1))
    np.testing.assert_allclose(results, expected, atol=1e-3)
    mask = np.ones(36, bool)
    mask[[0, 8]] = False
    with torch.no_grad():
        said = explainer.model(torch.from_numpy(expected)[None]).logits[0].softmax(-1)
    assert explainer.score_masks([mask])[0, 0] == pytest.approx(float(said[explainer.target]), abs=1e-5)


def test_image_gradients_equal_captums_and_sum_to_the_change():
    captum = pytest.importorskip("captum.attr", reason="captum is not installed")
    explainer = image_classifier_explainer()
    gradients = image_gradients(explainer.pixels, explainer.baseline, explainer.image_scores, steps=200)[0]
    expected = captum.IntegratedGradients(lambda x: explainer.image_scores(x)[:, 0]).attribute(
        explainer.pixels[None], explainer.baseline[None].contiguous(), n_steps=200, method="riemann_middle"
    )
    torch.testing.assert_close(gradients, expected[0].sum(-1).float(), atol=1e-4, rtol=1e-3)
    with torch.no_grad():
        whole = explainer.image_scores(explainer.pixels[None]) - explainer.image_scores(explainer.baseline[None])
    assert float(gradients.sum()) == pytest.approx(float(whole), abs=5e-3)
    by_cell = explainer.gradients(batch_size=10, steps=200)[0].unflatten(0, (6, 6))
    torch.testing.assert_close(by_cell[1, 2], gradients[4:8, 8:12].sum(), atol=1e-5, rtol=1e-4)


def test_weights_of_a_class_are_those_of_the_pooling(classes):
    look, explainer = classes
    with torch.no_grad(), record(explainer.model) as seen:
        logits = explainer.model(explainer.pixels[None]).logits[0]
    assert look.data["weights"] == pytest.approx(seen["pool.attend"][0, 0, 0].tolist(), abs=1e-6)
    assert [row["name"] for row in look.data["faithfulness"]["metrics"]] == METRICS
    assert look.data["prediction"]["label"] == CLASSES[int(logits.argmax())]
    assert "cells" in look.data["faithfulness"]["metrics"][0]["description"]
    kinds = {(m["layer"], m["rows"], m["columns"]) for m in look.data["maps"]}
    assert ("image_encoder.layers.0.attention.attend", "grid", "grid") in kinds
    assert ("pool.attend", "hops", "grid") in kinds
    assert ("rollout of the grid", "grid", "grid") in kinds
    assert set(look.data["other_attributions"]) == {"gradients", "leaving cells out"}


def test_another_class_can_be_explained():
    assert image_classifier_explainer(label="boat").targets == ["boat"]
    with pytest.raises(UserError, match="'boat'"):
        image_classifier_explainer(label="boot")


BRIGHT_CELLS = [2, 9, 14, 21, 28, 33]


class BrightnessExplainer(ImageClassifierExplainer):
    """Scores the brightness of some cells; its attention is on the cells of `points_at`."""

    points_at = BRIGHT_CELLS

    def image_scores(self, pictures):
        self.model(pictures)  # records its maps
        return pictures[:, torch.isin(self.cell_of_pixel, torch.tensor(BRIGHT_CELLS))].mean((1, 2))[:, None] / 255

    def attribute(self, maps):
        weights = np.full((1, 36), 0.01)
        weights[0, self.points_at] = 0.1
        return Attribution(weights, "by hand")


@pytest.mark.parametrize(("points_at", "faithful"), [(BRIGHT_CELLS, True), ([0, 3, 7, 16, 26, 35], False)])
def test_attention_to_the_deciding_cells_is_faithful(points_at, faithful):
    explainer = image_classifier_explainer()
    explainer.__class__ = BrightnessExplainer
    explainer.pixels[torch.isin(explainer.cell_of_pixel, torch.tensor(BRIGHT_CELLS))] = 255.0
    explainer.points_at = points_at
    data = build_look(explainer, heads=False).data
    assert ("is a faithful explanation" in data["faithfulness"]["verdict"]) is faithful
    for way in ("leaving cells out", "gradients"):
        assert sorted(np.argsort(data["other_attributions"][way])[-6:].tolist()) == BRIGHT_CELLS


def test_interventions_hide_cells_and_edit_heads():
    explainer = image_classifier_explainer()
    results = build_look(
        explainer, faithful=False, heads=False, interventions=["hide:2,3", parse_intervention("uniform:all")]
    ).data["interventions"]
    mask = np.ones(36, bool)
    mask[8] = False
    assert results[0]["after"] == pytest.approx(explainer.score_masks([mask])[0, 0])
    from contextlib import ExitStack

    with ExitStack() as stack:
        for layer in (
            "image_encoder.layers.0.attention.attend",
            "image_encoder.layers.1.attention.attend",
            "pool.attend",
        ):
            stack.enter_context(edit(explainer.model, layer, uniform()))
        assert results[1]["after"] == pytest.approx(explainer.full_scores()[0], abs=1e-6)
        assert results[2]["after"] == pytest.approx(explainer.score_masks([mask])[0, 0], abs=1e-6)
    with pytest.raises(UserError, match="9,9"):
        build_look(explainer, faithful=False, interventions=["hide:9,9"])


def test_each_word_of_a_caption_has_its_own_map(caption):
    look, explainer = caption
    ids = torch.tensor([[2, *IDS]])
    with torch.no_grad():
        logits = explainer.model(explainer.pixels[None], ids)[0].log_softmax(-1)
    expected = [float(logits[t, word]) for t, word in enumerate(IDS)]
    assert [q["log_p"] for q in look.data["targets"]] == pytest.approx(expected, abs=1e-5)
    maps = compute_word_maps(explainer.model, explainer.pixels[None], [[*IDS, 3]])[0]
    for target, map_ in zip(look.data["targets"], maps, strict=False):
        assert target["weights"] == pytest.approx(map_.ravel().tolist(), abs=1e-5)
        assert [row["name"] for row in target["faithfulness"]["metrics"]] == METRICS
    assert look.data["caption"] == "w7 w9 w8 w11"
    assert {(m["rows"], m["columns"]) for m in look.data["maps"]} == {("grid", "grid"), ("caption", "grid")}


def test_the_image_is_drawn_under_its_weights(classes):
    look, _ = classes
    weights = np.array(look.data["weights"]).reshape(6, 6)
    _, opacity = overlay_colors(weights)
    assert opacity[np.unravel_index(weights.argmax(), (6, 6))] == pytest.approx(0.4)
    assert f"row 2, column 3: {weights[1, 2]:.4g}" in look.svg()
    with Image.open(io.BytesIO(look.png())) as png:
        assert png.size == (512, 512)
    assert look.svg().count("<rect") == 37
    assert json.loads(look.json())["image_axis"] == "grid"
    assert look.csv().splitlines()[9].startswith('8,"2,3"')


def test_tokens_must_be_the_cells_of_a_grid(classes):
    look, _ = classes
    with pytest.raises(UserError, match="one cell per token"):
        Look({**look.data, "image_axis": "nothing"}).html()


@pytest.mark.browser
def test_a_selected_cell_shows_what_it_attends_to(classes, show):
    look, _ = classes
    opened = show(look)
    box = opened.page.locator("#text .stage canvas").bounding_box()

    def at(cell: int) -> dict:
        return {"x": (cell % 6 + 0.5) * box["width"] / 6, "y": (cell // 6 + 0.5) * box["height"] / 6}

    for cell in (0, 8, 35):
        opened.page.locator("#text .stage canvas").hover(position=at(cell))
        said = opened.page.evaluate("({...document.getElementById('cell-readout').dataset})")
        assert (int(said["cell"]), float(said["value"])) == (cell, pytest.approx(look.data["weights"][cell]))
        assert "without it p(" in opened.page.inner_text("#cell-readout")
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
    peak = max(look.data["other_attributions"]["gradients"])
    assert f"0 to {peak:.3g}"[:7] in opened.page.inner_text("#strongest")
    with opened.page.expect_download() as download:
        opened.page.click("#save-over")
    assert download.value.suggested_filename == "photo-png.png"
    assert opened.errors == []


@pytest.mark.browser
def test_distances_in_an_image_are_euclidean(classes, show):
    look, _ = classes
    opened = show(look, "#view=distance&head=1&mode=single&layer=image_encoder.layers.1.attention.attend")
    opened.page.wait_for_selector("#distance circle")
    weights = look.maps()["image_encoder.layers.1.attention.attend"][1].astype(float)
    y, x = np.divmod(np.arange(36), 6)
    far = np.round(np.hypot(y[:, None] - y, x[:, None] - x)).astype(int)
    shares = [weights[far == d].sum() / 36 for d in range(far.max() + 1)]
    read = opened.page.evaluate(
        "[...document.querySelectorAll('#distance circle')]"
        ".map((c) => [Number(c.dataset.distance), Number(c.dataset.fraction)])"
    )
    assert read[0][0] == 0
    assert [share for _, share in read] == pytest.approx(shares[: len(read)], abs=1e-5)
    assert opened.errors == []


@pytest.mark.browser
def test_a_word_of_the_caption_is_explained(caption, show):
    look, _ = caption
    opened = show(look)
    opened.page.click('#targets button[data-target="2"]')
    opened.page.wait_for_function("document.querySelector('#faithfulness .verdict').textContent.startsWith('“w8”')")
    strongest = int(np.argmax(look.data["targets"][2]["weights"]))
    assert f"row {strongest // 6 + 1}, column {strongest % 6 + 1}" in opened.page.inner_text("#strongest")
    again = show(look, "#word=2&layer=decoder.attention.attend")  # the address keeps it
    assert f"row {strongest // 6 + 1}, column {strongest % 6 + 1}" in again.page.inner_text("#strongest")
    again.page.wait_for_selector('#image[data-row="2"]')
    row = opened.page.inner_text("#faithfulness .metrics tbody tr >> nth=0")
    assert f"{look.data['targets'][2]['faithfulness']['metrics'][0]['attention']:.3f}" in row
    assert opened.errors == []


@pytest.mark.browser
def test_two_runs_on_one_image(show, classes):
    look, _ = classes
    opened = show(look.compare_with(build_look(image_classifier_explainer(1), faithful=False)))
    sizes = opened.page.evaluate(
        "[...document.querySelectorAll('#other .stage canvas')].map((c) => [c.width, c.height])"
    )
    assert sizes == [[6, 6]] * 3
    assert opened.errors == []


def test_the_image_is_embedded_in_the_page(classes):
    look, _ = classes
    raw = base64.b64decode(look.data["axes"]["grid"]["image"].partition(",")[2])
    with Image.open(io.BytesIO(raw)) as image:
        assert image.size == (96, 96)
    assert look.html().count(look.data["axes"]["grid"]["image"][:60]) >= 1
