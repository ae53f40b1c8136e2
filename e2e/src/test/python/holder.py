"""Uses GPUs for a while, before the eyes of the referee.

    holder.py SOCKET NAME SECONDS ASKED

The GPUs are those of CUDA_VISIBLE_DEVICES or, without it, of the first line of standard input; without that, none.
"""

import os
import socket
import sys
import time


def use(path, name, gpus, asked, seconds):
    """Prints the referee's answer when it has begun."""
    now = time.monotonic_ns()
    with socket.socket(socket.AF_UNIX) as referee:
        referee.connect(path)
        referee.sendall(f"ENTER {name} {gpus} {asked} {now}\n".encode())
        print(referee.recv(100).decode().strip(), flush=True)
        time.sleep(seconds)
        referee.sendall(f"LEAVE {time.monotonic_ns()}\n".encode())


def main(path, name, seconds, asked):
    gpus = os.environ.get("CUDA_VISIBLE_DEVICES") or sys.stdin.readline().strip()
    if gpus:
        use(path, name, gpus, asked, float(seconds))


if __name__ == "__main__":
    main(*sys.argv[1:])
