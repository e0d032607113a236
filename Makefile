# The front door; the work is in scripts/. Every target sets up what it needs, once.
#   PYTHON=…   an interpreter to use instead of python3; its PyTorch is used, none is downloaded
#   CUDA=1     build the device code though there is no GPU here; CUDA=0: build without it
#   SECONDS=…  how long `make fuzz` runs each fuzzer
PYTHON ?=
CUDA ?=
SECONDS ?= 60
export PYTHON CUDA

.DEFAULT_GOAL := help
.PHONY: help demo test differential bench lint fuzz asan tsan setup build clean

help: ## this list
	@echo "make TARGET [PYTHON=/path/to/python]"
	@awk -F ':.*## ' '/^[a-z ]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: ## record a sentence encoder right and wrong, and find the operator that went wrong
	@scripts/setup.sh demo
	@scripts/build.sh release
	@scripts/demo.sh

test: build ## all C++ and Python tests
	@scripts/setup.sh browser || echo "test: no browser, so the tests of the report page are skipped"
	@scripts/test.sh

differential: build ## small programs with every source of the tap: none may notice it
	@TTAP_DIFFERENTIAL=all .venv/bin/python -m pytest -q -n "$$(nproc)" tests/python/test_differential.py

bench: build ## the benchmarks
	@scripts/setup.sh browser || echo "bench: no browser, so opening the report page is not measured"
	@scripts/bench.sh

lint: ## formatting, clang-tidy and ruff
	@scripts/setup.sh clang lint
	@scripts/build.sh dev
	@scripts/lint.sh

fuzz: ## every fuzzer for SECONDS=60 each
	@scripts/setup.sh clang
	@scripts/build.sh asan
	@scripts/fuzz.sh $(SECONDS)

asan tsan: ## the C++ tests under AddressSanitizer and UBSan (asan) or ThreadSanitizer (tsan)
	@scripts/setup.sh clang
	@scripts/build.sh $@
	@ctest --preset $@

setup: ## apt packages, and .venv/ with what the tests import
	@scripts/setup.sh test

build: setup ## the library and the command, installed into .venv/
	@scripts/build.sh dev

clean: ## removes build/; .venv/ stays
	@rm -rf build
