#!/usr/bin/env bash
set -euo pipefail
# shellcheck source=examples/example.sh
. "$(dirname "$(readlink -f "$0")")/../example.sh"

about="Teaches LeNet to read digits, in Caffe on all GPUs that it is given, and fails if it does not learn."
default_container=(--service caffe)
read_options "$@"
run_job caffe_digits.py
