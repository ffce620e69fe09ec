# Every target sets up its own virtual environment; a second call reuses it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PEERS := .venv-peers
PEERS_READY := $(PEERS)/.ready
MLFLOW := .venv-mlflow
MLFLOW_READY := $(MLFLOW)/.ready

.PHONY: demo test coverage bench peers mlflow clean

# Many processes run at once, and the tests start more: one thread each, and none compiles what another has compiled.
test coverage: export OMP_NUM_THREADS := 1
unexport PYTHONDONTWRITEBYTECODE
# Tests wait for processes, servers and browsers a third of their time.
PROCESSES := $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN) * 3 / 2 )))

demo: $(READY)
	$(BIN)/veracity demo --out runs/demo

test: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	web/test.sh & web=$$!; $(BIN)/mypy; types=$$?; wait $$web && exit $$types
	$(BIN)/python -m pytest --numprocesses=$(PROCESSES) --dist=worksteal

coverage: $(READY)
	$(BIN)/python -m pytest --cov --numprocesses=$(PROCESSES) --dist=worksteal

bench: $(READY)
	$(BIN)/python -m benchmarks

peers: $(PEERS_READY)
	$(PEERS)/bin/python -m benchmarks.peers

# A server on the loopback, in an environment of its own: MLflow wants an older pyarrow.
mlflow: $(MLFLOW_READY)
	$(MLFLOW)/bin/python -m benchmarks.mlflow_server

$(READY): pyproject.toml papers/pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]' --editable './papers[all]'
	touch $@

$(PEERS_READY): pyproject.toml constraints-peers.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-peers.txt --editable . quantus
	touch $@

$(MLFLOW_READY): pyproject.toml constraints-mlflow.txt
	$(PYTHON) -m venv $(MLFLOW)
	$(MLFLOW)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-mlflow.txt --editable '.[mlflow]'
	touch $@

clean:
	rm -rf $(VENV) $(PEERS) $(MLFLOW) runs .mypy_cache .pytest_cache .ruff_cache
