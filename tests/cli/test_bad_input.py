"""Bad input gets one clear message and exit code 2, never a traceback."""

from __future__ import annotations

import shlex
import shutil

import pytest
from bad_inputs import CASES, Bad


@pytest.mark.parametrize("bad", CASES, ids=lambda bad: bad.title)
def test_bad_input(bad: Bad, cli, trained, tmp_path):
    shutil.copytree(trained, tmp_path / "run")
    bad.prepare(tmp_path)
    code, out, err = cli(*shlex.split(bad.command))
    assert code == bad.code, out + err
    assert bad.says in (err if bad.code else out + err), err
    assert "Traceback" not in err
    if bad.code and "Usage:" not in err:
        assert len(err.strip().splitlines()) == 1, err
