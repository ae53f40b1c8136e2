#!/bin/sh
# Counts to a number in more time than it is given, and so shows how a training outlives its time limit: it saves what it
# has when it is warned, ends with another exit code than 0, and goes on from there when it is started again.
#   walltime.sh TASK_INDEX STEPS
set -eu
index=$1 steps=$2
saved=$CHECKPOINT_DIR/count-$index

save() {
  # Whole or not at all: it may be killed at any time.
  echo "$step" >"$saved.new"
  mv "$saved.new" "$saved"
}

trap 'save; echo "warned at step $step, saved"; exit 75' USR1
step=0
if [ -e "$saved" ]; then
  step=$(cat "$saved")
  echo "goes on from step $step"
fi
while [ "$step" -lt "$steps" ]; do
  # The shell hears a signal when what it runs has ended.
  sleep 0.2
  step=$((step + 1))
done
save
echo "counted to $step"
