"""Locks every file of a folder as fasteners does, each within two seconds of the start, and names those it cannot lock.

    locks_are_free.py LOCK_DIR
"""

import os
import sys
import time

import fasteners


def main(folder):
    deadline = time.monotonic() + 2
    for name in sorted(os.listdir(folder)):
        lock = fasteners.InterProcessLock(os.path.join(folder, name))
        if not lock.acquire(timeout=max(0, deadline - time.monotonic())):
            print(name)


if __name__ == "__main__":
    main(*sys.argv[1:])
