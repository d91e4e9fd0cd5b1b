# Two commands do everything from a bare checkout with python3, pip and make:
#   make run              answer a question on the demo model (make run Q="..." for another)
#   make test             install what the tests need and run all of them; with PYTHON=python3.13 on that Python
#   make test-all         the same on every supported Python of this machine
#   make chat             talk with the demo model
# One by one:
#   make lint             the rules and the format; make types: mypy; make unit: the tests
#   make pyright          pyright, strict, over tests/typing and examples; then the completeness of public types, which must be 100 %
#   make failed           run the tests that failed last time again, in one process
#   make smoke            a sample of the tests: 600 items from all files
#   make lock             write the requirement locks anew
#   make clean            remove what was installed and what tools keep
#   make planted          plant 60 faults, one at a time, and count those that the tests find (SEED=... for the same ones)
# Longer tests than those of every day, about an hour on two cores together:
#   make nightly          all of the following, pyright, and the tests on the newest Python of this machine
#   make long             the tests with everything that they draw samples of: every turn, every store, every pair
#   make fuzz             the tests of properties, with other examples (SEED=... for some)
#   make life             random lives of runs, compared with a specification
#   make composition      random combinations of features, in every way that they can be run
#   make teams            teams of all patterns: random orders and trees
#   make sessions         ten processes write one session
#   make approvals        race changes of a call against its approval, 1,000 times for each kind
#   make cuts             cut connections of readers at random bytes, and kill the server now and then
#   make workers          kill, pause and drain workers that drive submitted runs, on each store
#   make faults           kill runs; cut power and fill the disk at every write; pause processes; damage files
#   make memory           kill and cut the power of a memory while it remembers
# By hand:
#   make conformance      recorded provider traffic; says where it is to be had
#   make golden           record the golden runs anew, when the format of records has changed on purpose
# Measurements:
#   make questions        the demo model: arithmetic from a printed seed, oblique requests
#   make coder            install the model `coder` of the catalogue (1.1 GB); how often its calls are right, and its speed
#   make durable          what a store costs, beside bare commits and fsyncs
#   make bench-knowledge  algorithms on graphs beside the library under them and NetworkX
#   make bench            what layers and stores cost, and runs beside a bare loop and the runtimes that are installed
PYTHON ?= python3
# a Python that was chosen has an environment of its own
ifeq ($(origin PYTHON),file)
VENV := .venv
else
VENV := .venv-$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
endif
BIN := $(VENV)/bin
LOCK := --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header --no-annotate -q
SEED ?= $(shell date +%s)
Q ?= What is 12 * (7 + 5)?
export QUESTION := $(value Q)
unexport Q

# a stamp per kind of installation: rebuilt when the requirements or the project file change
RUN_STAMP := $(VENV)/.installed-run
TEST_STAMP := $(VENV)/.installed-test
MODEL_STAMP := $(VENV)/.installed-model
BROWSER_STAMP := $(VENV)/.installed-browser
NODE_STAMP := $(VENV)/.installed-node
PYRIGHT_STAMP := $(VENV)/.installed-pyright

NIGHTLY := long pyright fuzz life composition teams sessions approvals cuts workers faults memory newest
.PHONY: run chat test test-all types lint unit smoke planted failed questions nightly $(NIGHTLY) conformance golden coder durable bench bench-knowledge lock clean help

help:
	@sed -n 's/^#   //p' Makefile

run: $(RUN_STAMP)
	@$(BIN)/ziggurat run --model demo -- "$$QUESTION"

chat: $(RUN_STAMP)
	@$(BIN)/ziggurat chat --model demo

test: $(TEST_STAMP) $(MODEL_STAMP) $(BROWSER_STAMP) $(NODE_STAMP) lint types unit

test-all:
	@for python in $$(.ci/pythons); do \
		echo "== $$python"; $(MAKE) --no-print-directory test PYTHON="$$python" || exit 1; done

lint: $(TEST_STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(TEST_STAMP)
	$(BIN)/mypy

pyright: $(PYRIGHT_STAMP)  # which finds the environment by PATH
	$(BIN)/pyright
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/pyright --verifytypes ziggurat --ignoreexternal

unit: $(TEST_STAMP)
	$(BIN)/python -m pytest --numprocesses=auto --dist=worksteal

smoke: $(TEST_STAMP) $(MODEL_STAMP)
	$(BIN)/python -m pytest --numprocesses=auto --dist=worksteal --smoke=600

planted: $(TEST_STAMP)
	$(BIN)/python -m tests.planted --seed $(SEED)

failed: $(TEST_STAMP)
	$(BIN)/python -m pytest --last-failed --last-failed-no-failures=none

questions: $(RUN_STAMP)  # how often the demo model picks the right tool and arguments
	@$(BIN)/python -P benchmarks/local_requests.py

nightly:
	$(MAKE) --keep-going -j2 --output-sync=target $(filter-out long newest,$(NIGHTLY)); storms=$$?; \
	$(MAKE) --keep-going long newest && exit $$storms

newest:
	@$(MAKE) --no-print-directory unit PYTHON="$$(.ci/pythons | tail -n 1)"

long: $(TEST_STAMP) $(MODEL_STAMP) $(BROWSER_STAMP) $(NODE_STAMP)
	ZIGGURAT_LONG=1 $(BIN)/python -m pytest --numprocesses=auto --dist=worksteal

fuzz: $(TEST_STAMP)
	$(BIN)/python -m pytest $(shell grep -rlw hypothesis tests --include='test_*.py') \
		--numprocesses=auto --dist=worksteal --hypothesis-seed=$(SEED)

conformance: $(TEST_STAMP)  # python -m tests.conformance.fetch takes what is read
	$(BIN)/python -m tests.conformance.schemas
	$(BIN)/python -W ignore -m tests.conformance.sdks
	$(BIN)/python -m tests.conformance.histories
	$(BIN)/python -m tests.conformance.partial_json
	$(BIN)/python -m tests.conformance.cuts

sessions: $(TEST_STAMP)
	dir=$$(mktemp -d) && for url in "sqlite:///$$dir/runs.db?synchronous=NORMAL" "file://$$dir/runs" postgres; do \
		$(BIN)/python -m tests.stores.session_storm "$$url" --processes 10 --steps $(or $(COUNT),200) || exit 1; done; rm -rf "$$dir"

approvals: $(TEST_STAMP)
	$(BIN)/python -m tests.calls.approval_races 1000

life: $(TEST_STAMP)
	$(BIN)/python -m tests.life.story $(SEED) --count $(or $(COUNT),500)

composition: $(TEST_STAMP)
	$(BIN)/python -m tests.composition.test_composition $(or $(COUNT),1000) $(SEED)

teams: $(TEST_STAMP)
	$(BIN)/python -m tests.teams.storms --orders 500 --trees 5000

cuts: $(TEST_STAMP)
	$(BIN)/python -m tests.serve.cuts --cuts $(or $(COUNT),2000) --kills 5

workers: $(TEST_STAMP)
	$(BIN)/python -m tests.agents.working --runs $(or $(COUNT),200)

FAULTS := $(BIN)/python -m tests.faults
STORES := --store sqlite --store file --store $(or $(ZIGGURAT_POSTGRES),postgres)

faults: $(TEST_STAMP)  # ZIGGURAT_POSTGRES: the address of a server, instead of one that is started
	$(FAULTS) kills --kills $(or $(COUNT),50) $(STORES)
	for world in flow plan team; do $(FAULTS) kills --kills $(or $(COUNT),50) --world $$world $(STORES) || exit 1; done
	$(FAULTS) kills --kills 20 --world timed $(STORES)
	$(FAULTS) kills --kills $(or $(COUNT),50) --world graph --store sqlite --store file
	$(FAULTS) power --steps 12 --every 4
	$(FAULTS) power --world flow --steps 8 --every 4
	$(FAULTS) disk --steps 4 --every 2
	$(FAULTS) disk --world flow --steps 3 --every 2
	for store in sqlite postgres; do $(FAULTS).crowd --kills $(or $(COUNT),50) --store $$store || exit 1; done
	$(FAULTS) damage --cases 100

memory: $(TEST_STAMP)
	$(BIN)/python -m tests.memory.losses kills --records 2000
	$(BIN)/python -m tests.memory.losses power --records 1000

golden: $(TEST_STAMP)
	$(BIN)/python -m tests.golden.convert --write

coder: $(RUN_STAMP)  # 1.1 GB and, on two processors, an hour
	@$(BIN)/python -m tests.weights coder
	@$(BIN)/python -P benchmarks/local_models.py coder
	@$(BIN)/python -P benchmarks/local_models.py coder --requests tests/data/local_optional.jsonl --tools tests/data/local_optional_tools.json
	@$(BIN)/python -P benchmarks/local_dialogues.py coder --dialogues 10
	@$(BIN)/python -P benchmarks/local_speed.py coder

durable: $(TEST_STAMP)  # ZIGGURAT_DISK: a folder on the disk to be measured
	@$(BIN)/python -P benchmarks/durable.py $(ZIGGURAT_DISK)

bench-knowledge: $(TEST_STAMP)
	@$(BIN)/python -P benchmarks/knowledge.py

bench: $(TEST_STAMP)
	@$(BIN)/python -P benchmarks/layers.py
	@$(BIN)/python -P benchmarks/durable.py --quick $(ZIGGURAT_DISK)
	@$(BIN)/python -m benchmarks.overhead

lock:
	$(BIN)/python -m pip install -q uv
	$(BIN)/uv pip compile pyproject.toml --extra all $(LOCK) -o requirements.lock
	$(BIN)/uv pip compile pyproject.toml --extra all --group test $(LOCK) -o requirements-test.lock
	$(BIN)/uv pip compile --group pyright $(LOCK) -o requirements-pyright.lock

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(RUN_STAMP): pyproject.toml requirements.lock | $(VENV)/bin/python
	@echo "installing ziggurat and its command line ..."
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes --no-deps -r requirements.lock
	@$(BIN)/python -m pip install -q --disable-pip-version-check --no-deps -e .
	@touch $@

$(TEST_STAMP): $(RUN_STAMP) requirements-test.lock
	@echo "installing what the tests need ..."
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes --no-deps -r requirements-test.lock
	@touch $@

$(PYRIGHT_STAMP): $(TEST_STAMP) requirements-pyright.lock
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes --no-deps -r requirements-pyright.lock
	@touch $@

$(MODEL_STAMP): tests/weights.py | $(RUN_STAMP)
	@$(BIN)/python -m tests.weights smollm
	@touch $@

$(BROWSER_STAMP): tests/serve/browser.py | $(TEST_STAMP)  # no stamp without a browser: the next make looks again
	@$(BIN)/python -m tests.serve.browser && touch $@ || true

$(NODE_STAMP): tests/serve/openai/node.py tests/serve/openai/ai_sdk/package-lock.json | $(TEST_STAMP)  # likewise
	@$(BIN)/python -m tests.serve.openai.node && touch $@ || true

clean:
	rm -rf .venv .venv-* .mypy_cache .ruff_cache .pytest_cache .hypothesis
