"""What every example does before and after it trains."""

import os
import sys

# For those who import this before TensorFlow: the same numbers on every CPU, and no message that they may differ.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")


def given_gpus():
    """Prints which GPUs Berth gave this job, and returns their numbers as a program here counts them."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "-1")
    if "NV_GPU" not in os.environ:
        print("no GPU was asked for", flush=True)
        return []
    print(f"GPUs of the server: NV_GPU={os.environ['NV_GPU']}", flush=True)
    print(f"seen in the job as: CUDA_VISIBLE_DEVICES={visible}", flush=True)
    return visible.split(",")


def check(accuracy, floor, count):
    """Prints what was learned, and ends the job with exit code 1 if that is too little."""
    print(f"accuracy {accuracy:.3f} on {count} digits that were not in the training", flush=True)
    if accuracy < floor:
        sys.exit(f"it has not learned: the accuracy {accuracy:.3f} is below {floor:.3f}")
