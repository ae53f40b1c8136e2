"""Watches who uses which GPU, and knows nothing of locks.

    referee.py SOCKET LOG

A user connects to SOCKET and sends `ENTER NAME GPUS ASKED NOW`: its GPUs with commas between them, when it asked for them
and when it got them, in nanoseconds of the monotonic clock. It begins when it is answered, and leaves by closing the
connection, so one that is killed leaves too. One that leaves by itself sends `LEAVE NOW` before.

The part of NAME before the dash is a kind. Standard input says `SERVER KIND` when the server of a kind is dead, and `END`
when nobody needs to make progress any more. Its end asks for the report, as lines of KEY=VALUE. LOG tells everything that
happened, in order.
"""

import os
import select
import socket
import struct
import sys
import time
from collections import defaultdict

PF_EXITING = 0x4
PATIENCE_WITH_THE_DYING = 5.0


def dying(pid):
    """Whether a process runs no more code of its own, although the kernel may not have closed all its files yet."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return True
    return fields[0] in "ZX" or int(fields[6]) & PF_EXITING != 0


class User:
    def __init__(self, connection):
        self.connection = connection
        self.pid = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
        self.buffer = b""
        self.name = None
        self.gpus = []
        self.said_goodbye = False


class Kind:
    def __init__(self, start):
        self.grants = 0
        self.killed = 0
        self.outlived = 0
        self.last = start
        self.gap = 0
        self.wait = 0


class Referee:
    def __init__(self, server, log):
        self.server = server
        self.log_file = log
        self.poll = select.epoll()
        self.input = b""
        self.users = {}
        self.holders = {}
        self.left = defaultdict(lambda: (0, ""))
        self.start = time.monotonic_ns()
        self.end = None
        self.kinds = defaultdict(lambda: Kind(self.start))
        self.overlaps = 0
        self.slowest = 0

    def run(self):
        self.poll.register(self.server, select.EPOLLIN)
        self.poll.register(0, select.EPOLLIN)
        asked_to_report = False
        while True:
            events = self.poll.poll(0 if asked_to_report else None)
            if not events:
                return
            for fd, _ in events:
                if fd == self.server.fileno():
                    self.accept()
                elif fd in self.users:
                    self.receive(self.users[fd])
                elif fd == 0 and not self.listen():
                    # Not before everything is seen that came until now.
                    asked_to_report = True
                    self.poll.unregister(0)

    def listen(self):
        """Takes in what standard input says; false at its end."""
        data = os.read(0, 1000)
        self.input += data
        *lines, self.input = self.input.split(b"\n")
        for line in lines:
            verb, *words = line.decode().split()
            if verb == "END":
                self.end = time.monotonic_ns()
            else:
                names = [user.name for user in self.users.values() if user.name and user.name.startswith(words[0])]
                self.kinds[words[0]].outlived += len(names)
                print(f"{self.now():.6f} SERVER of {words[0]} is dead, still using: {names}", file=self.log_file)
        return bool(data)

    def accept(self):
        connection = self.server.accept()[0]
        connection.setblocking(False)
        self.users[connection.fileno()] = User(connection)
        self.poll.register(connection, select.EPOLLIN)

    def receive(self, user):
        """Takes in what a user has sent so far, its leaving included."""
        try:
            while True:
                data = user.connection.recv(1000)
                if not data:
                    self.gone(user)
                    return
                user.buffer += data
                while b"\n" in user.buffer:
                    line, _, user.buffer = user.buffer.partition(b"\n")
                    self.handle(user, *line.decode().split())
        except BlockingIOError:
            pass
        except ConnectionResetError:
            self.gone(user)

    def handle(self, user, verb, *words):
        if verb == "ENTER":
            name, gpus, asked, now = words
            self.enter(user, name, [int(gpu) for gpu in gpus.split(",")], int(asked), int(now))
        else:
            user.said_goodbye = True
            self.log("LEAVE", user)
            for gpu in user.gpus:
                self.left[gpu] = (int(words[0]), user.name)

    def enter(self, user, name, gpus, asked, now):
        user.name = name
        self.slowest = max(self.slowest, time.monotonic_ns() - now)
        others = {self.holders[gpu] for gpu in gpus if gpu in self.holders}
        overlap = False
        for other in others:
            if self.is_there(other):
                overlap = True
                self.log("OVERLAP", user, f"with {other.name}, which has {other.gpus}")
        for gpu in gpus:
            # It said goodbye before we looked, and yet after this one had begun.
            if self.left[gpu][0] > now:
                overlap = True
                self.log("OVERLAP", user, f"on GPU {gpu} with {self.left[gpu][1]}, which left later")
        self.overlaps += overlap
        self.log("ENTER", user, f"{gpus} after {(now - asked) / 1e6:.1f} ms")
        user.gpus = gpus
        for gpu in gpus:
            self.holders[gpu] = user
        self.count(self.kinds[name.partition("-")[0]], asked, now)
        try:
            user.connection.send(b"overlap\n" if overlap else b"alone\n")
        except (BrokenPipeError, ConnectionResetError):
            pass

    def count(self, kind, asked, now):
        kind.grants += 1
        kind.wait = max(kind.wait, now - asked)
        if self.end is None:
            kind.gap = max(kind.gap, now - kind.last)
            kind.last = now

    def is_there(self, user):
        self.receive(user)
        if user.connection.fileno() >= 0 and dying(user.pid):
            # The kernel frees the locks of one that is killed before it closes its connection.
            select.select([user.connection], [], [], PATIENCE_WITH_THE_DYING)
            self.receive(user)
        return user.connection.fileno() >= 0 and not user.said_goodbye

    def gone(self, user):
        del self.users[user.connection.fileno()]
        user.connection.close()
        if user.name and not user.said_goodbye:
            self.kinds[user.name.partition("-")[0]].killed += 1
            self.log("KILLED", user)
        for gpu in user.gpus:
            if self.holders.get(gpu) is user:
                del self.holders[gpu]

    def log(self, what, user, more=""):
        print(f"{self.now():.6f} {what} {user.name} {more}", file=self.log_file)

    def now(self):
        return (time.monotonic_ns() - self.start) / 1e9

    def report(self):
        print(f"overlaps={self.overlaps}")
        print(f"remaining={','.join(user.name or '?' for user in self.users.values())}")
        print(f"slowest={self.slowest / 1e9:.3f}")
        for name, kind in self.kinds.items():
            gap = max(kind.gap, (self.end or kind.last) - kind.last)
            print(f"{name}.grants={kind.grants}")
            print(f"{name}.killed={kind.killed}")
            print(f"{name}.outlived={kind.outlived}")
            print(f"{name}.wait={kind.wait / 1e9:.3f}")
            print(f"{name}.gap={gap / 1e9:.3f}")


def main(path, log_path):
    with socket.socket(socket.AF_UNIX) as server, open(log_path, "w") as log:
        server.bind(path)
        server.listen(100)
        print("ready", flush=True)
        referee = Referee(server, log)
        referee.run()
        referee.report()


if __name__ == "__main__":
    main(*sys.argv[1:])
