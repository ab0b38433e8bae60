#!/usr/bin/env bash
# Build the compiled parts with the address and undefined-behaviour sanitizers, and run their tests, dense and sparse, on
# every instruction set of this machine. Arguments are passed on to pytest. Needs gcc, and the test extra and nanobind
# installed in the current environment.
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(mktemp -d)
trap 'rm -rf "$build"' EXIT
cmake -S . -B "$build" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DPACBAYES_SANITIZE=ON -DPython_EXECUTABLE="$(command -v python)"
cmake --build "$build" --parallel 2
mkdir "$build/package"
cp -r src/pacbayes "$build/package/"
cp "$build"/_hashing*.so "$build/package/pacbayes/rows/"
cp "$build"/_streams*.so "$build/package/pacbayes/sampling/"
cp "$build"/_engine*.so "$build"/_scores*.so "$build"/_tree_training*.so "$build/package/pacbayes/pools/"
# An editable installation comes before PYTHONPATH and would be tested instead.
cat > "$build/package/sitecustomize.py" <<'PYTHON'
import sys

sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in type(finder).__module__]
PYTHON
# Python itself is not instrumented: the runtimes must be loaded first, and memory that it keeps until exit is no leak of ours.
runtimes="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)"
export LD_PRELOAD="$runtimes" ASAN_OPTIONS=detect_leaks=0 PYTHONPATH="$build/package"
for instructions in avx512 avx2 baseline; do
  export PACBAYES_INSTRUCTIONS=$instructions
  python -c "from pacbayes.pools import _engine; print('==', _engine.instructions, _engine.__file__); assert '$build' in _engine.__file__"
  python -m pytest -q tests/pools/test_engine.py tests/pools/test_rbf_svm.py tests/pools/test_rbf_ridge.py tests/pools/test_tree_ensembles.py \
    tests/pools/test_linear_models.py tests/pools/test_boosting.py tests/pools/test_extra_trees.py \
    tests/pools/test_numeric_learners.py \
    tests/test_sampling.py -k "not older_machines" "$@"
done
