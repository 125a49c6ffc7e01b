# Everything a newcomer or a machine types. `make demo` and `make test` need only Python 3.10 or later and make.

PYTHON ?= python3
VENV ?= .venv
WORKERS ?= 3
DATASETS ?=
EPOCHS_SCALE ?= 1

XMLGP = $(VENV)/bin/xmlgp
TICKET = My screen is dark and I forgot my password

# The papers' tables and figures, by their names in datasets.yaml. DATASETS restricts them; EPOCHS_SCALE shortens them, and
# writes to results/partial.
EXPERIMENTS = table2 table2-diagonal table3 table4 table5 figure1 figure2 \
	l-table3 l-table7 l-figure1 l-figure2 l-figure3 l-figure4 l-figure5 \
	b-table2 b-table3 b-table4 b-figure2-left b-figure2-right i-figure4 i-figure5 i-figure6 i-figure7
PAPERS = $(VENV)/bin/python -m benchmarks.papers --datasets "$(DATASETS)" --epochs-scale $(EPOCHS_SCALE)

.DEFAULT_GOAL := help
.PHONY: help demo test lint format docs peers papers binary-sets mutants interchange findings clean $(EXPERIMENTS)

help: ## list what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# One environment, extended by the packages of each purpose; updated when the list of packages changes. Python compiles a
# module when it is first imported, and most modules of most packages never are. The environment is also that of the
# build, which runs xmlgp (see setup.py): pip would install what that needs a second time.
export PYTHONDONTWRITEBYTECODE =
PIP = $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile
BUILD = 'setuptools>=77' $(shell sed -n '/^setup_requires/,/^install_requires/s/^    //p' setup.cfg)

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed-%: setup.cfg setup.py | $(VENV)/bin/python
	@echo "Installing xmlgp[$*] into $(VENV), which may take some minutes"
	@$(PIP) $(BUILD)
	@$(PIP) --use-pep517 --no-build-isolation --editable '.[$*]'
	@touch $@

demo: $(VENV)/installed-report,serve ## install, then run the first steps on the embedded data sets: texts, then numbers
	$(XMLGP) fetch tickets
	$(XMLGP) train data/tickets models/tickets
	echo "$(TICKET)" | $(XMLGP) predict models/tickets - -k 3 --explain 3
	$(XMLGP) evaluate models/tickets data/tickets
	$(XMLGP) report models/tickets data/tickets -o report.html
	$(XMLGP) fetch toy
	$(XMLGP) train data/toy models/toy
	$(XMLGP) predict models/toy data/toy/test.txt -k 5 -o toy.scores
	$(XMLGP) evaluate models/toy data/toy
	@echo
	@echo "Done. Open report.html in a browser. For xmlgp in this shell: . $(VENV)/bin/activate"

# `worksteal` keeps the tests of a module together, whose fixtures are shared, and moves some when a worker has none left.
test: $(VENV)/installed-test ## install, then run the tests, in three processes (WORKERS=3)
	$(VENV)/bin/python -m pytest --numprocesses $(WORKERS) --dist worksteal

# The types of libraries count, so those that tests install are there.
lint: $(VENV)/installed-test,lint ## check style and types
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

format: $(VENV)/installed-lint ## put the code into the house's style
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

docs: $(VENV)/installed-docs ## build the documentation into build/docs; warnings are errors
	$(VENV)/bin/sphinx-build -q -W --keep-going -b html docs build/docs
	@echo build/docs/index.html

# PECOS needs PyTorch and more for its transformers only, which nothing here calls.
build/peers/installed: benchmarks/peers.txt
	@echo "Installing the other tools into build/peers, which may take some minutes"
	@$(PYTHON) -m venv --clear build/peers
	@build/peers/bin/python -m pip install --quiet --disable-pip-version-check --requirement benchmarks/peers.txt
	@build/peers/bin/python -m pip install --quiet --disable-pip-version-check --no-deps libpecos==1.2.8
	@touch $@

peers: build/peers/installed ## install other tools that benchmarks measure, into build/peers; needs Python 3.11 or 3.12

papers: $(VENV)/installed-papers ## the papers' tables and figures, on the sets in data/, hours; each also by its name, such as table2
	$(PAPERS) all

$(EXPERIMENTS): $(VENV)/installed-papers
	$(PAPERS) $@

binary-sets: $(VENV)/installed-papers ## the sets with two classes, of their published files in SOURCE=FOLDER
	@test -n "$(SOURCE)" || { echo "give the folder of the published files: make binary-sets SOURCE=FOLDER" >&2; exit 2; }
	$(VENV)/bin/python -m benchmarks.papers.binary_sets "$(SOURCE)"

mutants: $(VENV)/installed-test ## put each of 40 mistakes into a copy of the code and see that a test fails
	$(VENV)/bin/python tests/mutants.py

interchange: $(VENV)/installed-test build/peers/installed ## exchange files and scores with other tools, which it installs as `make peers` does
	$(VENV)/bin/python -m pytest tests/interchange --tools build/peers/bin/python

findings: $(VENV)/bin/python ## repeat what other packages do wrong; needs the package index
	set -e; for script in findings/*.sh; do PYTHON=$(abspath $(VENV)/bin/python) bash $$script; done

clean: ## remove the virtual environment, machine code and what the demo made
	find xmlgp -name '*.nb[ic]' -delete
	rm -rf $(VENV) build data/tickets data/toy models/tickets models/toy
	rm -f answers.jsonl report.html toy.scores
	@rmdir data models 2> /dev/null || true
