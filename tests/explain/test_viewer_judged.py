"""In a real browser: the figures beside each picture of heads, words joined by hand, and every view as a file."""

from __future__ import annotations

import csv
import io

import numpy as np
import pytest
import torch

from regard.inspect import attention_by_distance

pytestmark = pytest.mark.browser
SITE = "layers.1.attention.attend"


def figures(page) -> dict[str, list[float]]:
    return dict(
        page.page.eval_on_selector_all(
            "#judged tbody tr",
            "rows => rows.map(r => [r.cells[0].textContent, [1, 2, 3].map(i => Number(r.cells[i].textContent))])",
        )
    )


def test_figures_follow_the_picture(show, masked):
    look = masked[0]
    judged = next(m for m in look.data["maps"] if m["site"] == SITE)["judged"]
    page = show(look, f"#site={SITE}&head=2&mode=single")
    for told, view in ((judged["single"][2], "map"), (judged["single"][2], "lines"), (judged["single"][2], "distance")):
        page.go(f"site={SITE}&head=2&mode=single&view={view}")
        found = figures(page)
        assert page.page.inner_text("#judged .verdict") == told["sentence"]
        for row in told["rows"]:
            for value, key in zip(found[row["measure"]], ("attention", "random", "uniform"), strict=True):
                assert value == pytest.approx(row[key], abs=6e-4)
    page.go(f"site={SITE}&head=2&mode=max")
    assert page.page.inner_text("#judged .verdict") == judged["max"]["sentence"]
    assert "what the missing word regards" in page.page.inner_text("#judged .how")
    page.go(f"site={SITE}&head=2&mode=mean&heads=0.2")
    assert "not for these few" in page.page.inner_text("#judged .verdict")
    assert not page.page.is_visible("#judged table")
    marked = page.page.eval_on_selector_all(
        "#glance .believed", "all => all.map(b => `${b.dataset.site}/${b.dataset.head}`)"
    )
    wanted = [
        f"{site}/{head}"
        for site, stored in enumerate(look.data["maps"])
        for head, one in enumerate(stored["judged"]["single"])
        if not stored.get("rollout") and all(row["better_than"] >= 0.95 for row in one["rows"][:2])
    ]
    assert sorted(marked) == sorted(wanted)
    assert f"{len(wanted)} of 12" in page.page.inner_text("#believed")
    assert page.errors == []


def test_a_difference_and_a_translation_say_why_there_are_no_figures(show, two, translated):
    page = show(two[0], f"#site={SITE}&head=1&mode=single&diff=1")
    assert "explains neither run" in page.page.inner_text("#judged .verdict")
    look, _, subject = translated
    opened = show(look)  # with the alignment, before anything is chosen
    assert opened.page.inner_text("#large-title").startswith(subject.speaking)
    inside = next(m["site"] for m in look.data["maps"] if m["columns"] == "before")
    page = show(look, f"#site={inside}&head=0&mode=single")
    assert "written by the model itself" in page.page.inner_text("#judged .verdict")
    page.go(f"site={subject.speaking}&head=0&mode=single")
    assert set(figures(page)) == {"comprehensiveness", "sufficiency", "leave-one-out", "gradients"}


def test_hovering_a_word_tells_what_hiding_it_does(show, masked):
    look = masked[0]
    page = show(look)
    page.page.hover("#text .prose .word >> nth=2")
    number = int(page.page.get_attribute("#text .prose .word >> nth=2", "data-tokens").split(",")[0])
    assert f"→ {look.data['without'][number]:.4g}" in page.page.inner_text("#tip")


def test_words_joined_by_hand_are_one_row_and_one_column(show, masked):
    look, exact, subject = masked
    page = show(look, f"#site={SITE}&head=1&mode=single")
    page.page.click("#join")
    assert "Select two words" in page.page.inner_text("#join-say")
    page.page.evaluate(
        """() => {
            const words = document.querySelectorAll("#text .prose .word"), range = document.createRange();
            range.setStartBefore(words[1]); range.setEndAfter(words[3]);
            getSelection().removeAllRanges(); getSelection().addRange(range);
        }"""
    )
    page.page.keyboard.press("j")
    page.page.wait_for_function("location.hash.includes('spans=')")
    at = [i for i, t in enumerate(subject.tokens) if t["word"] in (2, 3, 4)]
    assert f"spans={at[0]}-{at[-1]}" in page.page.evaluate("location.hash")
    page.until(9, f"{at[0]},{at[-1]}")
    n = len(subject.tokens)
    groups = [*([i] for i in range(at[0])), at, *([i] for i in range(at[-1] + 1, n))]
    weights = exact[SITE][1]
    columns = np.stack([weights[:, g].sum(-1) for g in groups], -1)
    wanted = np.stack([columns[g].mean(0) for g in groups])
    found = np.array(page.cells())
    np.testing.assert_allclose(found, wanted, atol=len(at) * exact[SITE].max() / 510 + 1e-6)
    again = show(look, page.page.evaluate("location.hash"))
    assert again.shown() == page.shown()
    assert "joined" in again.page.inner_text("#join-say")
    again.page.click("#apart")
    again.until(9, "")
    assert len(again.cells()) == n
    assert page.errors == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_view_as_png_and_distances_as_csv(show, masked, scheme):
    from PIL import Image

    look, exact, _ = masked
    page = show(look, f"#site={SITE}&head=1&mode=single", color_scheme=scheme)
    for view in ("map", "lines", "distance"):
        page.go(f"site={SITE}&head=1&mode=single&view={view}")
        with page.page.expect_download() as waiting:
            page.page.click("#save-png")
        image = np.asarray(Image.open(waiting.value.path()).convert("L"), float)
        assert image[0, 0] > 240  # paper, also where the screen is dark
        assert image.min() < 140
        assert image.shape[0] > 100
    with page.page.expect_download() as waiting:
        page.page.click("#save-map")
    rows = list(csv.reader(io.StringIO(waiting.value.path().read_text())))
    wanted = attention_by_distance(torch.from_numpy(exact[SITE]))
    np.testing.assert_allclose(
        np.array([row[1:] for row in rows[1:]], float).T, wanted.fraction.numpy(), atol=exact[SITE].max() / 510 + 1e-6
    )
    assert [int(row[0]) for row in rows[1:]] == wanted.at.tolist()
    page.go(f"site={SITE}&head=1&mode=single&view=lines&row=3")
    tip = page.page.get_attribute("#lines line >> nth=0", "data-tip")
    assert "→" in tip
    assert "±" in tip
    assert page.errors == []


def test_a_file_tells_the_command_that_tries_a_change(show, masked, two):
    page = show(masked[0], f"#site={SITE}&head=2&mode=single")
    page.page.click('[data-try="ablate"]')
    said = page.page.inner_text("#try-say")
    assert said.startswith("regard look runs/0 '")
    assert said.endswith(f"--what-if ablate:{SITE}:2")
    assert page.page.is_disabled('[data-try="hide"]')
    page.page.click("#text .prose .word >> nth=2")
    page.page.click('[data-try="hide"]')
    assert page.page.inner_text("#try-say").endswith("--what-if hide:brown")
    page.go(f"site={SITE}&head=2&mode=mean")
    page.page.click('[data-try="uniform"]')
    assert page.page.inner_text("#try-say").endswith(f"--what-if uniform:{SITE}")
    page.go("site=rollout&head=0&mode=single")
    assert not page.page.is_visible('[data-try="ablate"]')
    page = show(two[0], f"#site={SITE}&head=1&mode=single")
    page.page.click('[data-try="swap"]')
    assert page.page.inner_text("#try-say").endswith(f"--what-if swap:runs/1:{SITE}:1")
    assert page.errors == []


def test_a_served_page_asks_at_once(chromium, masked):
    from urllib.parse import parse_qs, urlsplit

    context = chromium.new_context(viewport={"width": 1200, "height": 900})
    html = masked[0].html()
    context.route("http://127.0.0.1/**", lambda route: route.fulfill(body=html, content_type="text/html"))
    page = context.new_page()
    page.goto(f"http://127.0.0.1/look?text=a+b&model=m&what_if=hide%3Afox#site={SITE}&head=3&mode=single")
    page.locator("#large").scroll_into_view_if_needed()
    page.wait_for_selector("#large[data-shown]")
    with page.expect_navigation():
        page.click('[data-try="ablate"]')
    asked = parse_qs(urlsplit(page.url).query)
    assert asked["what_if"] == [f"hide:fox ablate:{SITE}:3"]
    assert asked["text"] == ["a b"]
    assert asked["model"] == ["m"]
    context.close()
