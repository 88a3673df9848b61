"""What the README shows, runs."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest
from conftest import write_corpus, write_reviews

README = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.S)
CHAINS = [
    block.split("\n")
    for block in re.findall(r"(?:^    regard .*\n)+", README, re.M)
    if any(f"train {task}" in block for task in ("language", "translate", "recall", "caption"))
]
"""Blocks whose commands build on one another."""
COMMANDS = [line.split(" #")[0].strip() for line in re.findall(r"^    (regard .*)$", README, re.M)]
LINKED = {line.split(" #")[0].strip() for chain in CHAINS for line in chain}


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_python_blocks_run(number, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    write_reviews(tmp_path / "reviews.csv")
    code = BLOCKS[number].replace('budget="2min"', "steps=2, progress=False")
    names: dict = {}
    exec(compile(code, "README.md", "exec"), names)
    assert names


@pytest.mark.parametrize("line", [c for c in COMMANDS if "import" not in c and "export" not in c and c not in LINKED])
def test_commands_run(line, cli, classifier_run, tmp_path):
    write_reviews(tmp_path / "test.csv", 20)
    if "train" not in line:
        shutil.copytree(classifier_run, tmp_path / "runs" / "han")
    short = "--budget 2steps --seeds 1" if "compare" in line else "--steps 2"
    line = re.sub(r"--budget 2min( --seeds \d)?", short, line)
    code, _, err = cli(*shlex.split(line)[1:])
    assert code == 0, err


@pytest.mark.parametrize("chain", CHAINS)
def test_commands_run_one_after_the_other(chain, cli, tmp_path):
    write_corpus(tmp_path / "corpus.txt")
    for line in filter(None, chain):
        short = re.sub(r"--(budget|steps|epochs) \S+", "--steps 2", line.split(" #")[0])
        code, _, err = cli(*shlex.split(short)[1:])
        assert code == 0, (line, err)


def test_links_lead_somewhere():
    links = [link for link in re.findall(r"\]\(([^)#]+)\)", README) if not link.startswith("http")]
    assert links
    for link in links:
        assert (Path(__file__).parents[2] / link).exists(), link
