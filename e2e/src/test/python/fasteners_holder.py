"""Takes GPUs as services did before Berth, uses them for a while before the eyes of the referee, and frees them.

    fasteners_holder.py SOCKET NAME SECONDS LOCK_DIR GPUS WANTED PAUSE

GPUS is how many there are. Such a service looks for further free ones every second; this one after each PAUSE.
"""

import os
import sys
import time

import fasteners
from holder import use


def take(folder, count, wanted, pause):
    taken = {}
    with fasteners.InterProcessLock(os.path.join(folder, "tmp_lock_sysgpus")):
        while True:
            for gpu in range(count):
                if gpu not in taken:
                    lock = fasteners.InterProcessLock(os.path.join(folder, f"tmp_lock_gpu{gpu}"))
                    if lock.acquire(blocking=False):
                        taken[gpu] = lock
                        if len(taken) == wanted:
                            return taken
            time.sleep(pause)


def main(path, name, seconds, folder, count, wanted, pause):
    asked = time.monotonic_ns()
    taken = take(folder, int(count), int(wanted), float(pause))
    use(path, name, ",".join(map(str, taken)), asked, float(seconds))
    for lock in taken.values():
        lock.release()


if __name__ == "__main__":
    main(*sys.argv[1:])
