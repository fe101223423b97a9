# `make demo` and `make test` install what they need into .venv; nothing else on the machine is touched, except that a
# root user without OpenGL gets Debian's software OpenGL, and for the tests Debian's Chromium.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/installed
TEST_STAMP := $(VENV)/installed-for-tests
GL_PACKAGES := libegl1 libgl1 libegl-mesa0 libgl1-mesa-dri libosmesa6
BROWSER_PACKAGES := chromium chromium-driver
NOTEBOOK := docs/getting_started.ipynb
DOCS_STAMP := $(VENV)/installed-for-docs

.PHONY: demo test test-slow bench lint docs habitat clean

demo: $(STAMP)
	$(BIN)/tpsrl eval tidy_house --skills oracle --split val --episodes 5 --json outputs/demo/tidy_house.json
	@if $(BIN)/tpsrl doctor | grep "^  used: " >/dev/null; then \
	    $(BIN)/tpsrl render tidy_house --skills oracle --split val --out outputs/demo/tidy_house.mp4; \
	else echo "no video: no OpenGL works here (tpsrl doctor says more)"; fi

# Two workers, a thread each: more threads than cores wait for each other. The notebook trains for seconds here.
test: $(TEST_STAMP)
	OMP_NUM_THREADS=1 TPSRL_NOTEBOOK_STEPS=1000 $(BIN)/python -m pytest -n 2 --nbmake --nbmake-timeout=600 tests $(NOTEBOOK)

test-slow: $(TEST_STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -m slow

# All but those that train for hours.
bench: $(STAMP)
	for script in $(filter-out $(addprefix benchmarks/,learning.py emergent_navigation.py navigation_learning.py seeds.py),$(wildcard benchmarks/*.py)); do $(BIN)/python $$script || exit 1; done

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The site, in site/: links and references are checked, and a warning is an error. The notebook's page has the outputs that it was
# last saved with.
docs: $(DOCS_STAMP)
	$(BIN)/jupyter nbconvert --log-level=WARN --to markdown $(NOTEBOOK)
	$(BIN)/zensical build --strict

$(DOCS_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[docs]"
	touch $@

# habitat-lab, for --sim habitat; habitat-sim itself is in no registry of pip's (docs/habitat.md).
habitat: $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[habitat]"
	$(BIN)/python -m pip install --quiet --no-deps --requirement requirements-habitat.txt
	$(BIN)/tpsrl doctor

# torch first and by name, the version that all the rest was resolved with.
$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet "$$(grep '^torch==' constraints.txt)"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && ! ldconfig -p | grep -q libEGL.so.1; then \
	    (apt-get update -qq && apt-get install -y -qq --no-install-recommends $(GL_PACKAGES)) >/dev/null 2>&1 \
	    || echo "no OpenGL: rendering needs Debian's $(GL_PACKAGES); everything else runs"; \
	fi
	touch $@

# What only tests need: Rerun, which is large, habitat-lab, LeRobot, a browser and FFmpeg's libraries.
$(TEST_STAMP): $(STAMP) requirements-habitat.txt requirements-lerobot.txt
	$(BIN)/python -m pip install --quiet --constraint constraints.txt \
	    --editable ".[dev,rerun,habitat,watch,minari,lerobot-parts,docs]"
	$(BIN)/python -m pip install --quiet --no-deps --requirement requirements-habitat.txt
	$(BIN)/python -m pip install --quiet --no-deps --requirement requirements-lerobot.txt
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
	    ! (command -v chromium && ldconfig -p | grep libavcodec) >/dev/null; then \
	    (apt-get update -qq && apt-get install -y -qq --no-install-recommends $(BROWSER_PACKAGES) ffmpeg) >/dev/null 2>&1 \
	    || echo "no Chromium or no FFmpeg: tests of pages, or of LeRobot's videos, are skipped"; \
	fi
	touch $@

clean:
	rm -rf $(VENV) outputs build site .cache *.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache
