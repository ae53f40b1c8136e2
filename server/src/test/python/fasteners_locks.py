"""Takes locks as services do that use fasteners, for tests of mutual exclusion.

    fasteners_locks.py hold FILE...   locks them all, says "held", and lets go when its input ends
    fasteners_locks.py try FILE       says "free" or "busy"
    fasteners_locks.py spin FILE      says "trying", tries without a pause until it has it, and says "free"
"""

import sys

import fasteners


def main(action, *paths):
    locks = [fasteners.InterProcessLock(path) for path in paths]
    if action == "try":
        print("free" if locks[0].acquire(blocking=False) else "busy")
        return
    if action == "spin":
        print("trying", flush=True)
        while not locks[0].acquire(blocking=False):
            pass
        print("free", flush=True)
        return
    for lock in locks:
        if not lock.acquire(blocking=False):
            print("busy", flush=True)
            return
    print("held", flush=True)
    sys.stdin.read()
    for lock in locks:
        lock.release()


if __name__ == "__main__":
    main(*sys.argv[1:])
