"""Tests are tiny: one thread each, so that processes side by side do not wait for one another."""

from __future__ import annotations

import shutil

import pytest
import torch


@pytest.fixture(autouse=True)
def one_thread():
    torch.set_num_threads(1)


@pytest.fixture(scope="module")
def chromium():
    """The Chromium of the system, driven by playwright: one at a time, since its loop of events bears no other."""
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if path is None:
        pytest.skip("no Chromium found: install Debian's package `chromium` to run the browser tests")
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    flags = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
    with api.sync_playwright() as driver:
        browser = driver.chromium.launch(
            executable_path=path, args=[*flags.split(), "--disable-component-update", "--disable-sync"]
        )
        yield browser
        browser.close()
