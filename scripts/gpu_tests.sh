#!/usr/bin/env bash
# Runs the tests that need a GPU, and the kernels' tests under compute-sanitizer.
#   scripts/gpu_tests.sh BUILD PYTHON
# BUILD is a build folder that was made with nvcc. PYTHON is an interpreter that has pytest and a
# PyTorch for CUDA and finds the package forebay. All parts run, and the exit status is 1 if any fails.
set -uo pipefail
cd "$(dirname "$(readlink -f "$0")")/.."
build=$1
python=$2
failed=()

part() { # NAME COMMAND …
  local name=$1; shift
  printf '\033[1m== %s\033[0m\n' "$name" >&2
  "$@" || failed+=("$name")
}

kernels=("$build/src/image/image_test" --gtest_filter='PrepareGpu.*:BatchDecoder.*')
part "a GPU" nvidia-smi -L
part "kernels" "${kernels[@]}"
# Present where the machine has the PyTorch that they were built with, and it has CUDA.
if [ -x "$build/src/train/train_test" ]; then
  part "training" "$build/src/train/train_test" --gtest_filter='*OnAGpu*'
fi
part "PyTorch finds it" "$python" -c 'import sys, torch; sys.exit(not torch.cuda.is_available())'
part "Python" "$python" -m pytest -q tests/python/test_devices.py tests/python/test_batch_decoder.py
part "several processes" "$python" -m pytest -q tests/python/test_sync.py -k another_memory
for tool in memcheck racecheck initcheck synccheck; do
  part "$tool" compute-sanitizer --tool "$tool" --error-exitcode 1 "${kernels[@]}"
done
[ ${#failed[@]} = 0 ] || { printf 'gpu_tests: failed: %s\n' "${failed[*]}" >&2; exit 1; }
