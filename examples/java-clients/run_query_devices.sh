#!/usr/bin/env bash
set -euo pipefail
# shellcheck source=examples/example.sh
. "$(dirname "$(readlink -f "$0")")/../example.sh"

about="Shows the devices that a job sees in TensorFlow, and all GPUs of the server. A program in Java."
default_container=(--service tensorflow)
default_server="the variable BERTH_SERVER, else 127.0.0.1:18812"
read_options "$@"
run_java QueryDevices
