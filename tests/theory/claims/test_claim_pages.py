"""The pages of verify contain the results and load nothing from outside."""

from __future__ import annotations

import json

import pytest

from regard.cli import build_app
from regard.theory import verify_claims
from regard.theory.claim import CheckResult, Claim, Plot, check_claim
from regard.theory.claim_pages import page_name, render_sliders, render_topic, write_pages


def _loads_from_outside(text: str) -> bool:
    return "https://" in text or "http://" in text.replace("http://www.w3.org", "")


def check_example(tests, id="one", topic="order"):
    plot = Plot("A plot", "n", "FLOPs", [{"name": "a", "x": [1, 10, 100], "y": [2, 200, 2000]}], "xy")
    result = CheckResult({"figure <b>": 0.25, "list": [1, 2.5]}, tests, {"counter": 3}, (plot,))
    return check_claim(Claim(id, topic, "exact", "It is so.", "a = b", lambda seed: result, "misstated"))


def test_a_page_shows_verdict_figures_and_misstatement():
    text = render_topic(
        "order", [check_example({"x": True}), check_example({"y": None}, "two"), check_example({"z": False}, "three")]
    )
    for word in ("It is so.", "a = b", "0.25", "misstated", "undecided", 'class="verdict undecided"', "<svg"):
        assert word in text
    assert "1 holds, 1 fails, 1 undecided" in text
    assert "figure &lt;b&gt;" in text
    assert not _loads_from_outside(text)


def test_pages_by_topic(tmp_path):
    results = [check_example({"x": True}), check_example({"x": True}, "two", "constructions")]
    names = [path.name for path in write_pages(results, tmp_path)]
    assert names == ["order.html", "constructions.html", "sliders.html"]
    assert page_name("structured self-attention") == "structured-self-attention.html"


def test_sliders_load_nothing():
    text = render_sliders()
    assert not _loads_from_outside(text)
    for slider in ("margin", "strength", "variance", "count", "beta"):
        assert f'id="{slider}"' in text


@pytest.mark.parametrize("verdict", [None, False])
def test_the_command_shows_failed_tests(monkeypatch, verdict):
    from typer.testing import CliRunner

    monkeypatch.setattr(
        verify_claims,
        "CLAIMS",
        [Claim("x", "order", "exact", "So.", "a", lambda seed: CheckResult({"a": 1}, {"t": verdict}))],
    )
    result = CliRunner().invoke(build_app(["verify"]), ["verify", "--json"])
    assert result.exit_code == (1 if verdict is False else 0)
    assert json.loads(result.stdout)[0]["verdict"] == ("fails" if verdict is False else "undecided")
    result = CliRunner().invoke(build_app(["verify"]), ["verify"])
    assert "holds" not in result.stdout
    assert ("NO: t" if verdict is False else "undecided: t") in result.stdout


def test_results_before_an_interrupt_are_shown(monkeypatch):
    from typer.testing import CliRunner

    def stop(seed: int) -> CheckResult:
        raise KeyboardInterrupt

    one = Claim("one", "order", "exact", "So.", "a", lambda seed: CheckResult({"a": 1}, {"t": True}))
    monkeypatch.setattr(verify_claims, "CLAIMS", [one, Claim("two", "order", "exact", "So.", "a", stop)])
    result = CliRunner().invoke(build_app(["verify"]), ["verify", "--json"])
    assert result.exit_code == 130
    assert [row["id"] for row in json.loads(result.stdout)] == ["one"]
