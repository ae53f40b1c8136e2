"""Wants a lock as fasteners takes it, and waits for it in the kernel.

    wait_for_lock.py FILE

Says "busy" if somebody has it, and "free" with the time when it has it itself; then ends.
"""

import fcntl
import sys
import time


def main(path):
    with open(path, "a") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            print("busy", flush=True)
            fcntl.lockf(file, fcntl.LOCK_EX)
        print("free", time.time(), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
