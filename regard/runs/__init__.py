"""Runs: what was trained, on what, with what result; a folder on disk and an object in Python."""
