#!/usr/bin/env bash
# Builds the compiled parts with the address and undefined-behaviour sanitizers, and runs their tests on every
# instruction set of this machine. Needs gcc, and the test extra and nanobind installed in the current environment.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DPACBAYES_SANITIZE=ON -DPython_EXECUTABLE="$(command -v python)"
cmake --build "$build" --parallel 2
mkdir "$build/package"
cp -r src/pacbayes "$build/package/"
cp "$build"/_streams*.so "$build/package/pacbayes/"
cp "$build"/_engine*.so "$build/package/pacbayes/pools/"
# Python itself is not instrumented: the runtimes have to be there first, and what it keeps until exit is no leak of ours.
runtimes="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)"
for instructions in avx512 avx2 baseline; do
  echo "== $instructions"
  PACBAYES_INSTRUCTIONS=$instructions LD_PRELOAD="$runtimes" ASAN_OPTIONS=detect_leaks=0 \
    PYTHONPATH="$build/package" python -m pytest -q tests/pools tests/test_sampling.py -k "not older_machines"
done
