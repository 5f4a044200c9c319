# Everything sets itself up. PYTHON is any Python 3.11 to 3.13.
PYTHON ?= python3
BIN := .venv/bin
export NO_MKDOCS_2_WARNING = 1 # Material's notice of its end of life; the design allows for it

.PHONY: serve site check test benchmark record clean

serve: .venv/ready          ## run the blocks and serve with live reload; only what changed runs again
	$(BIN)/mkdocs serve

site: .venv/ready           ## check, run and build strictly into site/; non-zero when anything failed
	$(BIN)/mkdocs build

check: .venv/ready          ## the checker alone: every mistake of every page, no code run
	$(BIN)/python -m courseware.check docs

test: .venv/ready-test      ## everything the tests need, the browser included, and all the tests
	$(BIN)/python -m pytest -n auto --dist loadfile

benchmark: .venv/ready-test ## a checked build against a plain one, weight of a first visit, steps of the demos
	$(BIN)/python scripts/benchmark_build.py
	$(BIN)/python scripts/benchmark_demos.py

record:                     ## with an NVIDIA GPU and the current Python: CUDA blocks, proofs, benchmarks into docs/evidence
	$(PYTHON) -m courseware.record

clean:                      ## what the commands above made, the environment included
	rm -rf .venv .courseware .site.* site

.venv/ready: requirements.txt pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14) and "Python 3.11 to 3.13 is needed, this is " + sys.version + "; try: make PYTHON=python3.12 …")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --requirement requirements.txt
	$(BIN)/python -m pip install --quiet --no-deps --editable .
	touch $@

.venv/ready-test: .venv/ready requirements-dev.txt scripts/install_browser.py
	$(BIN)/python -m pip install --quiet --requirement requirements-dev.txt
	$(BIN)/python scripts/install_browser.py
	touch $@
