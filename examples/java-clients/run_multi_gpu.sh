#!/usr/bin/env bash
set -euo pipefail
# shellcheck source=examples/example.sh
. "$(dirname "$(readlink -f "$0")")/../example.sh"

about="Teaches a network on all GPUs that it is given at once, and fails if it left one out. A program in Java."
default_container=(--service tensorflow)
default_gpus=2
default_server="the variable BERTH_SERVER, else 127.0.0.1:18812"
read_options "$@"
run_java TrainOnAllGpus
