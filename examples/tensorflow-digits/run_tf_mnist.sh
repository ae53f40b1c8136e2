#!/usr/bin/env bash
set -euo pipefail
# shellcheck source=examples/example.sh
. "$(dirname "$(readlink -f "$0")")/../example.sh"

about="Teaches a small network of Keras to read digits, in TensorFlow on one GPU, and fails if it does not learn."
default_container=(--service tensorflow)
read_options "$@"
run_job tf_digits.py
