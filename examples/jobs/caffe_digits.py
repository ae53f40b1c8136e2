"""Teaches LeNet to read digits with the command `caffe`, on all GPUs of the job."""

import argparse
import re
import subprocess
import sys

import h5py
import numpy as np

import lesson
from digits import digits

TEST_BATCH = 100  # as in lenet.prototxt


def write_digits(name, count, seed):
    """Writes digits to a file as a layer HDF5Data reads it, and the list of such files, of which there is one."""
    images, labels = digits(count, seed)
    with h5py.File(f"{name}.h5", "w") as file:
        file["image"] = images[:, None]
        file["label"] = labels.astype(np.float32)
    with open(f"{name}.txt", "w") as file:
        print(f"{name}.h5", file=file)


def caffe(*words):
    """Runs `caffe`, shows what its log says of GPUs and of progress, and returns all of the log."""
    print("$ caffe", *words, flush=True)
    process = subprocess.Popen(["caffe", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines = []
    for line in process.stdout:
        lines.append(line)
        if re.search(r"GPU|Iteration \d+.* loss", line):
            print(line, end="", flush=True)
    if process.wait() != 0:
        sys.exit("".join(lines[-20:]) + f"caffe ended with exit code {process.returncode}")
    return "".join(lines)


def parse_options(gpus):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("-gpu", default=",".join(gpus), metavar="LIST", help="GPUs to train on, as the job counts them")
    parser.add_argument("--steps", type=int, default=150, metavar="N", help="batches of 64 digits to learn from")
    parser.add_argument("--train", type=int, default=6400, metavar="N", help="different digits to learn from")
    parser.add_argument("--floor", type=float, default=0.9, metavar="SHARE", help="fail below this accuracy")
    return parser.parse_args()


if __name__ == "__main__":
    options = parse_options(lesson.given_gpus())
    on_gpus = ["-gpu", options.gpu] if options.gpu else []

    write_digits("train", options.train, seed=1)
    with open("lenet_solver.prototxt") as template, open("solver.prototxt", "w") as solver:
        print(template.read(), f"max_iter: {options.steps}", file=solver)
    caffe("train", "--solver=solver.prototxt", *on_gpus)

    batches = 10
    write_digits("test", batches * TEST_BATCH, seed=2)
    weights = f"lenet_iter_{options.steps}.caffemodel"
    # The original tests on one GPU only.
    on_gpu = ["-gpu", options.gpu.split(",")[0]] if options.gpu else []
    log = caffe("test", "--model=lenet.prototxt", f"--weights={weights}", f"--iterations={batches}", *on_gpu)
    accuracy = float(re.findall(r"\baccuracy = (\S+)", log)[-1])
    lesson.check(accuracy, options.floor, batches * TEST_BATCH)
