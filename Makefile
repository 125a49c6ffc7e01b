# Everything a newcomer or a machine types. `make demo` and `make test` need only Python 3.10 or later and make.

PYTHON ?= python3
VENV   ?= .venv
DATASETS ?= bibtex delicious
XMLGP   = $(VENV)/bin/xmlgp

.DEFAULT_GOAL := help
.PHONY: help demo test lint format benchmark-recipes benchmark-step clean

help: ## list what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# One environment a purpose, made anew when the list of packages changes.
$(VENV)/installed: setup.cfg setup.py
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/installed-%: $(VENV)/installed
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	touch $@

demo: $(VENV)/installed ## install, then run every subcommand on the embedded data set
	$(XMLGP) fetch toy
	$(XMLGP) preprocess data/toy models/toy
	$(XMLGP) train data/toy models/toy
	$(XMLGP) predict models/toy data/toy/test.txt -k 5 -o toy.scores
	$(XMLGP) show models/toy
	$(XMLGP) evaluate toy.scores data/toy/test.txt --train data/toy/train.txt

test: $(VENV)/installed-test ## install, then run all tests
	$(VENV)/bin/python -m pytest

lint: $(VENV)/installed-lint ## check style
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

format: $(VENV)/installed-lint ## put the code into the house's style
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

benchmark-recipes: $(VENV)/installed ## precision and time of the recipes on the sets in DATASETS
	$(VENV)/bin/python benchmarks/recipes.py $(addprefix data/,$(DATASETS))

benchmark-step: $(VENV)/installed ## time of a training step by part, beside its limit
	$(VENV)/bin/python benchmarks/step.py

clean: ## remove the virtual environment and what the demo made
	rm -rf $(VENV) data/toy models/toy toy.scores
