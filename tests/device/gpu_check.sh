#!/usr/bin/env bash
# On a machine with an NVIDIA GPU: build in place, run the end-to-end cases and the Triton cases on it, print the benchmark table.
set -uo pipefail
cd "$(dirname "$0")/../.."
out=${1:-.}
export FUSELAB_CACHE_DIR=${FUSELAB_CACHE_DIR:-$(mktemp -d)} PYTHONUNBUFFERED=1
python3 setup.py -q build_ext --inplace || exit 1
python3 -m pytest -q -x --maxfail=8 tests/test_tiny.py tests/codegen/test_triton.py --device cuda --tb=short 2>&1 | tee "$out/tests.log" | tail -60
python3 -m tests.bench.compare --device cuda --steady --training --rounds 5 --json "$out/gpu.json" 2>&1 | tee "$out/bench.log"
