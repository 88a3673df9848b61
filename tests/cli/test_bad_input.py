"""Bad input gets one clear message and exit code 2, never a traceback."""

from __future__ import annotations

import shlex
import shutil
import subprocess

import pytest
from bad_inputs import CASES, BadInput, CannotPrepareError


@pytest.mark.parametrize("bad", CASES, ids=lambda bad: bad.title)
def test_bad_input(bad: BadInput, cli, classifier_run, tmp_path):
    shutil.copytree(classifier_run, tmp_path / "run")
    try:
        bad.prepare(tmp_path)
        code, out, err = cli(*shlex.split(bad.command))
    except CannotPrepareError as reason:
        pytest.skip(str(reason))
    finally:
        if (tmp_path / "full").is_mount():
            subprocess.run(["umount", str(tmp_path / "full")], check=True)
    assert code == bad.code, out + err
    assert bad.message in (err if bad.code else out + err), err
    assert "Traceback" not in err
    if bad.code and "Usage:" not in err:
        assert len(err.strip().splitlines()) == 1, err
