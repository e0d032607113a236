# The front door; the work is in scripts/. Every target sets up what it needs, once.
#   PYTHON=…   an interpreter to use instead of python3; its PyTorch is used, none is downloaded
#   CUDA=1     build the device code though there is no GPU here; CUDA=0: build without it
#   SECONDS=…  how long `make fuzz` runs each fuzzer
#   MINUTES=…  how long `make chaos` starts and stops recordings
PYTHON ?=
CUDA ?=
SECONDS ?= 60
MINUTES ?= 30
export PYTHON CUDA

.DEFAULT_GOAL := help
.PHONY: help demo test serving differential chaos bench lint fuzz asan tsan setup build clean

help: ## this list
	@echo "make TARGET [PYTHON=/path/to/python]"
	@awk -F ':.*## ' '/^[a-z ]+:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: ## record a sentence encoder right and wrong, and find the operator that went wrong
	@scripts/setup.sh demo
	@scripts/build.sh release
	@scripts/demo.sh

test: build ## all C++ and Python tests
	@scripts/setup.sh browser || echo "test: no browser, so the tests of the report page are skipped"
	@scripts/setup_engine.sh || echo "test: no vLLM, so the tests of serving engines are skipped"
	@scripts/test.sh

serving: build ## real serving engines (vLLM and SGLang on the CPU, 6.4 GB) against Transformers
	@scripts/setup_engine.sh
	@scripts/setup_engine.sh sglang || echo "serving: no SGLang, so its tests are skipped"
	@TTAP_SERVING=all .venv/bin/python -m pytest -q --timeout 3600 tests/python/test_serving.py tests/python/test_serving_sglang.py

differential: build ## small programs with every source of the tap: none may notice it
	@TTAP_DIFFERENTIAL=all .venv/bin/python -m pytest -q -n "$$(nproc)" tests/python/test_differential.py

chaos: build ## recordings that come and go for MINUTES=30, every system call failed, 1,000 kills
	@TTAP_CHAOS_SECONDS=$$(( $(MINUTES) * 60 )) TTAP_FAULTS=all TTAP_KILLS=1000 .venv/bin/python -m pytest -q \
	  --timeout 7200 tests/python/test_chaos.py tests/python/test_faults.py tests/python/test_kills.py

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

asan tsan: build ## C++ tests, and recordings that come and go, under AddressSanitizer and UBSan (asan) or ThreadSanitizer (tsan)
	@scripts/setup.sh clang
	@scripts/build.sh $@
	@ctest --preset $@
	@scripts/sanitized_package.sh $@

setup: ## apt packages, and .venv/ with what the tests import
	@scripts/setup.sh test

build: setup ## the library and the command, installed into .venv/
	@scripts/build.sh dev

clean: ## removes build/; .venv/ stays
	@rm -rf build
