"""`regard translate` and what belongs to it: lines in, lines out, in their order, and what is wrong with them said."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys

import pytest
from conftest import write_pairs


def test_lines_keep_their_order_and_empty_ones_stay_empty(cli, translation_runs, tmp_path):
    write_pairs(tmp_path)
    lines = (tmp_path / "val.en").read_text().splitlines()
    (tmp_path / "some.en").write_text("\n".join([lines[0], "", lines[1], "   "]) + "\n")
    run = str(translation_runs / "en-de")
    code, whole, err = cli("translate", run, "some.en", "--max-new-tokens", "9")
    assert code == 0, err
    said = whole.split("\n")
    assert len(said) == 5
    assert said[1] == said[3] == said[4] == ""
    code, piped, _ = cli("translate", run, "--max-new-tokens", "9", stdin=(tmp_path / "some.en").read_text())
    assert cli("translate", run, "-", "--max-new-tokens", "9", stdin=(tmp_path / "some.en").read_text())[1] == piped
    assert piped == whole
    code, alone, _ = cli("translate", run, "--text", lines[1], "--max-new-tokens", "9")
    assert alone == said[2] + "\n"
    (tmp_path / "blank.en").write_text("\n\n")
    assert cli("translate", run, "blank.en")[:2] == (0, "\n\n")


def test_json_and_alignments(cli, translation_runs, tmp_path):
    write_pairs(tmp_path)
    run = str(translation_runs / "en-de")
    code, out, err = cli(
        "translate", run, "val.en", "--beam", "2", "--max-new-tokens", "5", "--alignments", "a.txt", "--json"
    )
    assert code == 0, err
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["source"] for row in rows] == (tmp_path / "val.en").read_text().splitlines()
    lines = (tmp_path / "a.txt").read_text().split("\n")
    assert len(lines) == len(rows) + 1
    for line, row in zip(lines, rows, strict=False):
        pairs = [tuple(map(int, pair.split("-"))) for pair in line.split()]
        assert sorted(pairs) == sorted(map(tuple, row["alignment"]))
        source, target = (re.findall(r"[^ \t]+", row[side]) for side in ("source", "text"))
        assert all(s < len(source) and t < len(target) for s, t in pairs)


def test_a_pipe_is_answered_line_by_line(translation_runs):
    """The answer to the first line comes while the pipe is open."""
    command = [
        sys.executable,
        "-m",
        "regard.cli",
        "translate",
        str(translation_runs / "en-de"),
        "--max-new-tokens",
        "4",
    ]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for line in ("We loved it.\n", "\n"):
            process.stdin.write(line)
            process.stdin.flush()
            assert process.stdout.readline().endswith("\n")
        process.stdin.close()
        assert process.wait(60) == 0


def test_evaluate_and_look(cli, translation_runs, tmp_path):
    write_pairs(tmp_path)
    run = str(translation_runs / "en-de")
    code, out, err = cli("evaluate", run, "val.en", "val.de", "--json")
    assert code == 0, err
    found = json.loads(out)
    assert {"bleu", "bleu_lc", "chrf", "ter", "signatures", "loss"} <= set(found)
    code, out, _ = cli("evaluate", run, "val.en", "val.de", "--beam", "1")
    assert "nrefs:1|case:lc" in out
    code, out, err = cli("look", run, "We loved it.", "--out", "look.html")
    assert code == 0, err
    assert "We loved it." in (tmp_path / "look.html").read_text()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("train translate train.en val.de", "train.en has 40 lines and .*val.de has 8"),
        ("train translate train.en", "is not a table"),
        (
            "train translate train.en train.de val.en",
            "expected two aligned files, or one table with two columns, got 3 files",
        ),
        ("train translate train.en nothing.de", "no such file"),
        (
            "train translate train.en train.de --mechanism synthesizer-random --model rnn",
            "does not support cross-attention",
        ),
        ("translate RUN val.en --text x", "not both"),
        ("translate RUN val.en --top-k 3", "--top-k need --temperature"),
        ("translate RUN val.en --temperature 1 --beam 2", r"--beam \(beam search\) exclude each other"),
        ("translate RUN val.en --temperature 1 --beam 2 --alpha 0", r"--beam and --alpha \(beam search\)"),
        ("data generate dates --out dates.tsv --source de", "No such option: --source"),
        ("translate RUN nothing.en", "no such file"),
        ("translate HAN val.en", "which cannot translate; it can"),
        ("evaluate RUN train.en val.de", "has 40 lines and"),
        ("evaluate RUN val.en", "is not a table"),
        ("evaluate RUN val.en val.de --stride 3", "No such option: --stride"),
        ("evaluate HAN reviews.csv reviews.csv", r"evaluated on 1 file\(s\), not 2"),
        ("generate RUN x", "which cannot generate; it can translate"),
        ("look RUN x --label y", "a translator has no classes"),
    ],
)
def test_bad_input_is_said(cli, translation_runs, classifier_run, tmp_path, line, message):
    write_pairs(tmp_path)
    words = [
        {"RUN": str(translation_runs / "en-de"), "HAN": str(classifier_run)}.get(word, word)
        for word in shlex.split(line)
    ]
    code, _, err = cli(*words)
    assert code == 2, err
    assert re.search(message, err), err


def test_bytes_that_are_no_text_name_their_line(cli, translation_runs, monkeypatch, tmp_path):
    (tmp_path / "bad.en").write_bytes(b"fine\nnot \xff fine\n")
    code, _, err = cli("translate", str(translation_runs / "en-de"), "bad.en")
    assert code == 2
    assert "line 2" in err


def test_lines_before_bytes_that_are_no_text_are_translated(cli, translation_runs, monkeypatch):
    import io

    raw = io.TextIOWrapper(io.BytesIO(b"We loved it.\n\nnot \xff fine\nlost\n"))
    monkeypatch.setattr(sys, "stdin", raw)
    code, out, err = cli("translate", str(translation_runs / "en-de"), "--max-new-tokens", "4")
    assert code == 2
    assert "standard input, line 3" in err
    assert out.count("\n") == 2


def test_alignments_are_not_overwritten_where_there_is_nothing_to_align(cli, translation_runs, tmp_path):
    (tmp_path / "old.align").write_text("0-0\n")
    code, _, err = cli("translate", str(translation_runs / "en-de"), "nothing.en", "--alignments", "old.align")
    assert code == 2, err
    assert (tmp_path / "old.align").read_text() == "0-0\n"
