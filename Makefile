# `make demo` and `make test` need nothing but Python 3.11: they set everything up in .venv, once.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
# A new stamp whenever what to install changes.
STAMP := $(VENV)/installed-$(shell cat pyproject.toml constraints.txt | cksum | cut -d' ' -f1)

# Without a GPU, PyTorch's build for CPUs, if pip is set up to find it (PIP_EXTRA_INDEX_URL, PIP_FIND_LINKS): on Linux the
# default one brings gigabytes of libraries for GPUs.
CPU_TORCH := $(shell [ "$$(uname)" = Linux ] && ! command -v nvidia-smi >/dev/null && \
	sed -n 's/^\(torch==[0-9.]*\)$$/\1+cpu/p' constraints.txt)

DEMO_DIR ?= runs/demo
DEMO_WEIGHTS := $(addprefix efficient-morl/,tetrominoes multi-dsprites-long clevr6-long)
LEARN_DIR ?= runs/learn
LEARN_STEPS ?= 1800

.PHONY: install demo learn explore browser test test-slow lint docs docs-serve clean

install: $(STAMP)

$(STAMP):
	@echo "Setting up $(VENV) (once; about a minute) ..."
	@$(PYTHON) -m venv $(VENV)
	@[ -z "$(CPU_TORCH)" ] || $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps \
		--timeout 15 --retries 0 "$(CPU_TORCH)" 2>/dev/null || \
		echo "PyTorch's build for CPUs cannot be had here: the default one is installed."
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@rm -f $(VENV)/installed-* && touch $@

demo: install
	@mkdir -p $(DEMO_DIR)
	@for weights in $(DEMO_WEIGHTS); do \
		echo "Taking 64 held-out scenes apart with $$weights, which comes with the package:"; \
		$(BIN)/emorl evaluate $$weights --images 64 || exit 1; done
	@$(BIN)/emorl figure decompositions $(DEMO_WEIGHTS) --scenes 3 --out $(DEMO_DIR)/scenes.png
	@echo "To watch it learn this from scratch, without labels, in about three minutes:  make learn"
	@echo "To train to the end (under an hour; can be stopped and resumed):"
	@echo "  $(BIN)/emorl train efficient-morl/tetrominoes --out runs/full"

# An interrupted run goes on where it stopped; a finished one stays, and is only scored again.
learn: install
	@if [ -e $(LEARN_DIR)/scores.json ]; then \
		echo "$(LEARN_DIR) holds a trained run already. To watch another: make learn LEARN_DIR=runs/learn-again"; fi
	@echo "Training EfficientMORL on Tetrominoes from scratch, without labels. About three minutes on two cores."
	@$(BIN)/emorl train efficient-morl/tetrominoes --out $(LEARN_DIR) --resume \
		--train.steps $(LEARN_STEPS) --train.evaluate-every 200 --train.checkpoint-every 200
	@echo "Scores on 320 held-out scenes (ARI: 0 is chance, 1 is perfect):"
	@$(BIN)/emorl evaluate $(LEARN_DIR) --picture $(LEARN_DIR)/scenes.png

explore: install
	@$(BIN)/emorl explore --open

# The page is tested in a real browser. Where it cannot be installed, those tests are skipped and say why.
browser:
	@command -v chromium >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
		echo "Installing Chromium, for the tests of the explorer ..." && \
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium >/dev/null; } || \
		echo "Chromium is not here and cannot be installed: the tests of the explorer's page are skipped."

test: install browser
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n auto --dist worksteal

test-slow: install
	$(BIN)/python -m pytest -m slow

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Needs no network; what would be a dead link or a missing name of the reference is an error.
docs: install
	@rm -rf site
	@NO_COLOR=1 $(BIN)/zensical build --clean --strict
	@echo "Open site/index.html"

docs-serve: install
	@$(BIN)/zensical serve

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .cache site runs
