#!/usr/bin/env bash
set -euo pipefail
# shellcheck source=examples/example.sh
. "$(dirname "$(readlink -f "$0")")/../example.sh"

about="Shows the devices that a job sees in TensorFlow, and all GPUs of the server. A program in Java."
default_container=(--service tensorflow)
read_options "$@"
run_java QueryDevices
