# SPDX-License-Identifier: MIT
"""A client of the control socket, from its description alone (the manual's
CONTROL SOCKET), and a program to talk to."""
import contextlib
import json
import os
import pathlib
import socket
import time

from tracing import start


def starttime(pid):
    stat = pathlib.Path("/proc/%s/stat" % pid).read_text()
    return stat.rsplit(")", 1)[1].split()[19]


def until(what, seconds=20):
    """The value of what() once it is true."""
    deadline = time.monotonic() + seconds
    while not (value := what()) and time.monotonic() < deadline:
        time.sleep(0.01)
    return value


def of_tasks(pid, name="comm"):
    """What /proc has in a file of each of its threads: [(folder, text)].
    Between the list and the look threads end."""
    found = []
    for task in pathlib.Path("/proc/%d/task" % pid).iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found.append((task, (task / name).read_text()))
    return found


def threads(pid):
    """{name: its folder}"""
    return {text.strip(): task for task, text in of_tasks(pid)}


class Client:
    def __init__(self, path, hello=b"gputrace 1\n"):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(20)
        # EAGAIN: its queue is full, for a moment.
        assert until(lambda: self._connect(str(path)))
        self.send(hello)
        self.file = self.socket.makefile("rb")

    def _connect(self, path):
        try:
            self.socket.connect(path)
            return True
        except BlockingIOError:
            return False

    def send(self, data, *fds):
        if fds:
            socket.send_fds(self.socket, [data], list(fds))
        elif data:
            self.socket.sendall(data)

    def receive(self):
        """The next answer, None at the end."""
        line = self.file.readline()
        return json.loads(line) if line else None

    def ask(self, line, *fds):
        self.send(line.encode() + b"\n", *fds)
        return self.receive()

    def close(self):
        self.file.close()
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


class Server:
    """A program with the library in it; ended with the block."""

    def __init__(self, folder, *args, program="decode", tmp=None, **settings):
        self.folder, self.tmp = folder, tmp or folder / "tmp"
        self.tmp.mkdir(exist_ok=True)
        args = args or ("--seconds", 600, "--kernels", 4, "--sync-ms", 5)
        settings = {"GPUTRACE_START": "off", "TMPDIR": self.tmp,
                    "GPUTRACE_OUT": folder / "t.json", **settings}
        self.process = start(program, *args, **settings)
        self.pid = self.process.pid

    @property
    def place(self):
        return self.tmp / ("gputrace-%d" % os.geteuid())

    @property
    def path(self):
        return self.place / ("%d-%s.sock" % (self.pid, starttime(self.pid)))

    def client(self):
        """Once it can be had."""
        assert until(lambda: self.process.poll() is not None or
                     self.path.exists()) and self.process.poll() is None
        # Its name is there a moment before it listens.
        return until(self._try)

    def _try(self):
        try:
            return Client(self.path)
        except ConnectionRefusedError:
            return None

    def ask(self, line, *fds):
        with self.client() as client:
            return client.ask(line, *fds)

    def state(self):
        return self.ask("status")["state"]

    def end(self):
        """Kills it if it lives: (status, stderr)."""
        if self.process.poll() is None:
            self.process.kill()
        err = self.process.communicate(timeout=30)[1].decode()
        return self.process.returncode, err

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.end()
