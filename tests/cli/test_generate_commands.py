"""`regard generate` and `regard fill` as a user meets them."""

from __future__ import annotations

import json

import pytest

from regard.tasks.base_run import Run


@pytest.fixture
def gpt(language_runs) -> str:
    return str(language_runs / "gpt")


def test_a_text_is_the_same_streamed_and_as_json(cli, gpt):
    given = (gpt, "We loved the", "--max-new-tokens", "20", "--seed", "3", "--top-k", "50")
    code, out, _ = cli("generate", *given)
    assert code == 0
    code, data, _ = cli("generate", *given, "--json")
    assert code == 0
    said = json.loads(data)
    assert said["prompt"] == "We loved the"
    assert out == said["prompt"] + said["text"] + "\n"
    assert said["tokens"] <= 20
    assert not said["window_moved"]


def test_another_seed_writes_another_text_and_samples_differ(cli, gpt):
    texts = []
    for seed in ("1", "1", "2"):
        _, out, _ = cli("generate", gpt, "The room", "--max-new-tokens", "20", "--seed", seed, "--n", "3", "--json")
        texts.append([json.loads(line)["text"] for line in out.splitlines()])
    assert texts[0] == texts[1] != texts[2]
    assert len(set(texts[0])) == 3
    _, out, _ = cli("generate", gpt, "The room", "--max-new-tokens", "20", "--seed", "1", "--n", "2")
    assert out == "".join(f"The room{text}\n---\n" for text in texts[0][:2])


def test_a_file_of_prompts_is_each_prompt_alone(cli, gpt, tmp_path):
    (tmp_path / "prompts.txt").write_text("The room was\n\nWe\nA film that nobody should have made\n")
    given = ("--max-new-tokens", "12", "--temperature", "0", "--json")
    code, out, _ = cli("generate", gpt, "--file", "prompts.txt", *given)
    assert code == 0
    together = [json.loads(line) for line in out.splitlines()]
    assert len(together) == 3
    for said in together:
        _, alone, _ = cli("generate", gpt, said["prompt"], *given)
        assert json.loads(alone) == said


def test_a_text_may_begin_with_nothing_and_grow_beyond_the_window(cli, gpt):
    code, out, err = cli("generate", gpt, "--max-new-tokens", "60")
    assert code == 0
    assert out.strip()
    assert "longer than the context of 32 tokens" in err
    code, _, err = cli("generate", gpt, "--max-new-tokens", "60", "--window", "100")
    assert code == 0
    assert "longer than the context" not in err


def test_text_is_streamed_word_by_word(language_runs):
    run = Run.load(language_runs / "gpt")
    parts: dict[tuple[int, int], list[str]] = {}
    said = run.generate_all(
        ["The", "We loved"],
        max_new_tokens=25,
        n=2,
        on_text=lambda p, s, text: parts.setdefault((p, s), []).append(text),
    )
    assert {key: "".join(texts) for key, texts in parts.items()} == {
        (p, s): text.text for p, samples in enumerate(said) for s, text in enumerate(samples)
    }
    assert all(len(texts) > 3 for texts in parts.values())
    assert str(said[0][0]) == "The" + said[0][0].text


def test_half_the_bytes(cli, gpt):
    code, out, _ = cli("generate", gpt, "The", "--max-new-tokens", "5", "--precision", "float16")
    assert code == 0
    assert out.startswith("The")


def test_span_model_generates_and_fills_masks(cli, language_runs):
    run = str(language_runs / "cnn")
    code, out, _ = cli("generate", run, "The room", "--max-new-tokens", "8", "--json")
    assert code == 0
    assert json.loads(out)["prompt"] == "The room"
    code, out, err = cli("generate", run, "The room was cold. " * 20, "--max-new-tokens", "40", "--json")
    assert code == 0
    assert "at most half of its context of 32 tokens: 16 instead of 40" in err
    assert "does not fit into the context of 32 tokens: its beginning was truncated" in err
    assert json.loads(out)["tokens"] <= 16
    assert not json.loads(out)["window_moved"]
    code, out, err = cli("fill", run, "The [MASK] was cold.", "--top", "4", "--json")
    assert code == 0, err
    (mask,) = json.loads(out)["masks"]
    assert 1 <= len(mask["guesses"]) <= 4
    for guess in mask["guesses"]:
        assert guess["text"].startswith("The")
        assert guess["text"].endswith(" was cold.")
        assert 0 <= guess["probability"] <= 1
    code, _, err = cli("fill", run, "The [MASK] was [MASK].")
    assert code == 2
    assert "one [MASK]" in err


@pytest.mark.parametrize("model", ["bert", "birnn"])
def test_each_mask_gets_its_words(cli, language_runs, model):
    code, out, err = cli("fill", str(language_runs / model), "The [MASK] was [MASK].", "--top", "3", "--json")
    assert code == 0, err
    said = json.loads(out)
    assert len(said["masks"]) == 2
    for mask in said["masks"]:
        chances = [guess["probability"] for guess in mask["guesses"]]
        assert len(chances) == 3
        assert chances == sorted(chances, reverse=True)
        assert sum(chances) <= 1
        assert all("[" not in guess["words"] for guess in mask["guesses"])
    first = said["masks"][0]["guesses"][0]["text"]
    assert first.startswith("The")
    assert first.endswith("[MASK].")
    code, out, _ = cli("fill", str(language_runs / model), "The [MASK] was [MASK].", "--top", "3")
    assert [line.split("\t")[0] for line in out.splitlines()].count("[MASK] 1") == 1
    assert len(out.splitlines()) == 8


def test_a_space_before_a_mask_belongs_to_the_word(language_runs):
    run = Run.load(language_runs / "bert")
    spaced, glued = run.fill("The [MASK] was", top=3)[0], run.fill("The[MASK] was", top=3)[0]
    assert [guess.words for guess in spaced] == [guess.words for guess in glued]
    assert [guess.text for guess in spaced] == [guess.text for guess in glued]


def test_a_long_text_is_seen_around_the_mask_and_that_is_said(cli, language_runs):
    code, _, err = cli("fill", str(language_runs / "bert"), "The room was cold. " * 30 + "The [MASK] was good.")
    assert code == 0
    assert "around each [MASK]" in err
    code, _, err = cli("fill", str(language_runs / "cnn"), "The room was cold. " * 30 + "The [MASK] was good.")
    assert code == 0
    assert "near the [MASK]" in err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("generate", "RUNS/bert", "The"), "objective 'masked'.*cannot generate.*fill"),
        (("fill", "RUNS/gpt", "The [MASK]"), "objective 'causal'.*cannot fill.*generate"),
        (("generate", "HAN", "The"), "'classify', which cannot generate"),
        (("fill", "HAN", "The [MASK]"), "'classify', which cannot fill"),
        (("fill", "RUNS/bert", "The room"), "no \\[MASK\\]"),
        (("generate", "RUNS/gpt", "The", "--top-p", "1.5"), "top_p"),
        (("generate", "RUNS/gpt", "The", "--precision", "int3"), "int3.*float32"),
        (("generate", "RUNS/gpt", "The", "--file", "reviews.csv"), "not both"),
        (("generate", "RUNS/gpt", "--file", "empty.txt"), "contains no prompt"),
        (("generate", "RUNS/gpt", "--file", "nowhere.txt"), "No such file"),
        (("generate", "nowhere", "The"), "no such run folder"),
    ],
)
def test_what_cannot_be_done_is_told(cli, language_runs, classifier_run, tmp_path, words, said):
    import re

    (tmp_path / "empty.txt").write_text("\n\n")
    code, _, err = cli(*(w.replace("RUNS", str(language_runs)).replace("HAN", str(classifier_run)) for w in words))
    assert code == 2
    assert re.search(said, err), err
    assert "Traceback" not in err
