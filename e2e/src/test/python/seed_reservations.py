"""Reserves GPUs the way the services before Berth did, with fasteners, and measures it.

    seed_reservations.py FOLDER GPUS loop CLIENTS HOLD_MS SECONDS    one line per client: its reservations in that time
    seed_reservations.py FOLDER GPUS hand-over TIMES                 one line each: nanoseconds from release to grant
    seed_reservations.py FOLDER GPUS hold                            for each line read: reserves all GPUs and prints
                                                                     'held'; releases them at the next and prints when

FOLDER holds the lock files. Holds are random, HOLD_MS in the mean. Needs fasteners.
"""

import multiprocessing
import os
import random
import sys
import time

import fasteners


class Gpus:
    def __init__(self, folder, count):
        self.folder = folder
        self.count = count

    def reserve(self, wanted):
        """Waits for `wanted` GPUs, keeping those that it has and the system lock, and looks again every second."""
        system = self.lock("tmp_lock_sysgpus")
        system.acquire(blocking=True)
        held = {}
        while True:
            for index in range(self.count):
                if len(held) == wanted:
                    break
                if index not in held:
                    gpu = self.lock(f"tmp_lock_gpu{index}")
                    if gpu.acquire(blocking=False, delay=0):
                        held[index] = gpu
            if len(held) == wanted:
                break
            time.sleep(1)
        system.release()
        return held

    def lock(self, name):
        return fasteners.InterProcessLock(os.path.join(self.folder, name))


def release(held):
    for gpu in held.values():
        gpu.release()


def loop(gpus, clients, hold_ms, seconds):
    # POSIX locks belong to a process, so each client is one.
    start = multiprocessing.Barrier(clients)
    counts = multiprocessing.Array("q", clients)

    def client(number):
        start.wait()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            held = gpus.reserve(1)
            if hold_ms > 0:
                time.sleep(random.uniform(0, 2 * hold_ms / 1000))
            release(held)
            if time.monotonic() < end:
                counts[number] += 1

    processes = [multiprocessing.Process(target=client, args=(number,)) for number in range(clients)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    for count in counts:
        print(count)


def hand_over(gpus, times):
    ours, theirs = multiprocessing.Pipe()

    def waiter():
        while theirs.recv():
            theirs.send(None)
            held = gpus.reserve(1)
            theirs.send(time.monotonic_ns())
            release(held)

    process = multiprocessing.Process(target=waiter)
    process.start()
    for _ in range(times):
        held = gpus.reserve(gpus.count)
        ours.send(True)
        ours.recv()
        # A whole period of the waiter's sleep, so that every phase of it is as likely.
        time.sleep(random.uniform(0.1, 1.1))
        released = time.monotonic_ns()
        release(held)
        print(ours.recv() - released, flush=True)
    ours.send(False)
    process.join()


def hold(gpus):
    while sys.stdin.readline():
        held = gpus.reserve(gpus.count)
        print("held", flush=True)
        sys.stdin.readline()
        released = time.monotonic_ns()
        release(held)
        print(released, flush=True)


def main():
    folder, count, mode, *numbers = sys.argv[1:]
    gpus = Gpus(folder, int(count))
    {"loop": loop, "hand-over": hand_over, "hold": hold}[mode](gpus, *map(int, numbers))


main()
