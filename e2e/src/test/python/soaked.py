"""A program that a soak runs: it proves that it has its GPUs for itself, prints numbered lines, and keeps a journal.

    soaked.py FOLDER NAME TASK TICKS FAILURES [stubborn]

NAME is that of its cluster or run, TASK that of its task, such as worker:0. It works for TICKS quarters of a second, over
all of its starts together; a task ps:N works until it is stopped. Its first FAILURES starts end with exit code 3. One that
is stubborn does not heed SIGTERM.

In FOLDER are

    gpus/SERVER-INDEX   locked by the one that has this GPU
    tasks/NAME.TASK     locked by the one that is this task
    saved/NAME.TASK     how many ticks are done
    runs/RUN            the journal of one start: `begin PID SERVER GPUS NAME TASK`, the number of the last line after each
                        that was printed, `end CODE`
    seen                what must not be: `gpu GPU RUN OTHER`, `task TASK RUN OTHER`, `again RUN`

The locks are the kernel's, so they end with the process, however that ends, and before anybody can hear of its end.
"""

import fcntl
import os
import signal
import sys
import time

TICK = 0.25
LINES = 10
FAILS_AFTER = 3
FAILED = 3


class Stopped(Exception):
    pass


def stop(*_):
    raise Stopped


class Soaked:
    def __init__(self, folder, name, task, ticks, failures, manner=""):
        self.folder = folder
        self.id = f"{name}.{task}"
        self.works_until_stopped = task.startswith("ps:")
        self.ticks = int(ticks)
        self.fails = int(os.environ.get("RESTART_COUNT", 0)) < int(failures)
        self.stubborn = manner == "stubborn"
        self.run = os.environ["BERTH_RUN_ID"]
        self.server = os.environ["BERTH_SERVER"]
        self.gpus = [gpu for gpu in os.environ.get("NV_GPU", "").split(",") if gpu]
        self.begun = f"begin {os.getpid()} {self.server} {','.join(self.gpus) or '-'} {name} {task}\n"
        self.notes = None
        self.locked = []

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def saw(self, text):
        with open(self.path("seen"), "a") as file:
            file.write(text + "\n")

    def journal(self, flags):
        return os.open(self.path("runs", self.run), os.O_WRONLY | os.O_APPEND | flags, 0o644)

    def open_journal(self):
        try:
            self.notes = self.journal(os.O_CREAT | os.O_EXCL)
        except FileExistsError:
            self.saw(f"again {self.run}")
            self.notes = self.journal(0)
        os.write(self.notes, self.begun.encode())

    def lock(self, kind, name):
        file = os.open(self.path(kind + "s", name), os.O_RDWR | os.O_CREAT, 0o644)
        self.locked.append(file)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.pwrite(file, f"{self.run}\n".encode().ljust(80), 0)
        except BlockingIOError:
            holder = os.pread(file, 80, 0).decode().strip() or "-"
            self.saw(f"{kind} {name} {self.run} {holder}")

    def saved(self):
        try:
            with open(self.path("saved", self.id)) as file:
                return int(file.read() or 0)
        except FileNotFoundError:
            return 0

    def save(self, done):
        with open(self.path("saved", self.id + ".new"), "w") as file:
            file.write(str(done))
        os.replace(self.path("saved", self.id + ".new"), self.path("saved", self.id))

    def work(self):
        done = self.saved()
        line = 0
        worked = 0
        while self.works_until_stopped or done < self.ticks:
            if self.fails and worked == FAILS_AFTER:
                return FAILED
            lines = [f"{self.run} {line + i} {'.' * 40}\n" for i in range(1, LINES + 1)]
            line += LINES
            # All of them or none: that is less than a pipe takes at once.
            os.write(1, "".join(lines).encode())
            os.write(self.notes, f"{line}\n".encode())
            time.sleep(TICK)
            done += 1
            worked += 1
            self.save(done)
        return 0

    def main(self):
        signal.signal(signal.SIGTERM, signal.SIG_IGN if self.stubborn else stop)
        try:
            self.open_journal()
            self.lock("task", self.id)
            for gpu in self.gpus:
                self.lock("gpu", f"{self.server}-{gpu}")
            code = self.work()
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        except Stopped:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            code = 128 + signal.SIGTERM
        if self.notes is not None:
            os.write(self.notes, f"end {code}\n".encode())
        return code


if __name__ == "__main__":
    sys.exit(Soaked(*sys.argv[1:]).main())
