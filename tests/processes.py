"""Commands in real processes; those that are Python are forked from one that has imported torch already."""

import atexit
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .zygote import SIZE

PIPE, TimeoutExpired = subprocess.PIPE, subprocess.TimeoutExpired

SEVERAL = """
import json, sys
from unmask.cli.main import main
for words in json.loads(sys.argv[1]):
    print("###", flush=True)
    try:
        code = main(words)
    except SystemExit as stop:
        code = stop.code
    print(f"exit {code}", flush=True)
"""


def several(*commands):
    """A process that runs one command after another: starting is what takes the time."""
    return [sys.executable, "-c", SEVERAL, json.dumps([[str(word) for word in words] for words in commands])]


def run(args, *, capture_output=False, check=False, timeout=None, **options):
    """`subprocess.run`."""
    given = options.pop("input", None)
    if capture_output:
        options |= {"stdout": PIPE, "stderr": PIPE}
    with Popen(args, stdin=PIPE if given is not None else None, **options) as process:
        try:
            printed, said = process.communicate(given, timeout)
        except BaseException:
            process.kill()
            raise
    done = subprocess.CompletedProcess(args, process.returncode, printed, said)
    if check:
        done.check_returncode()
    return done


class Popen(subprocess.Popen):
    """`subprocess.Popen` for [sys.executable, …]: the pipes are its own, the process is forked elsewhere."""

    def __init__(self, args, **options):
        assert str(args[0]) == sys.executable, "only Python is forked"
        self._folder, self._environment = str(options.get("cwd") or os.getcwd()), options.get("env") or os.environ
        super().__init__(args, **options)

    def _execute_child(self, args, executable, preexec_fn, close_fds, pass_fds, cwd, env, *rest):
        del executable, preexec_fn, close_fds, pass_fds, cwd, env
        to_read, to_write, from_read, from_write, error_read, error_write = rest[3:9]
        files = [file if file != -1 else place for place, file in enumerate((to_read, from_write, error_write))]
        environment = {str(name): str(value) for name, value in self._environment.items()}
        request = json.dumps([[str(word) for word in args[1:]], self._folder, environment]).encode()
        self._answers = socket.socket(socket.AF_UNIX)
        self._answers.connect(zygote())
        socket.send_fds(self._answers, [len(request).to_bytes(SIZE, "little")], files)
        self._answers.sendall(request)
        self.pid = int.from_bytes(self._answers.recv(SIZE, socket.MSG_WAITALL), "little")
        self._child_created = True
        for ours, theirs in ((to_write, to_read), (from_read, from_write), (error_read, error_write)):
            if ours != -1:
                os.close(theirs)

    def _internal_poll(self, *_, **__):
        return self._answer(0)

    def _wait(self, timeout):
        end = time.monotonic() + (1e9 if timeout is None else timeout)
        while self._answer(max(0.0, min(end - time.monotonic(), 60.0))) is None:
            if time.monotonic() >= end:
                raise TimeoutExpired(self.args, timeout)
        return self.returncode

    def _answer(self, seconds):
        if self.returncode is None:
            self._answers.settimeout(seconds)
            try:
                self.returncode = int.from_bytes(self._answers.recv(SIZE), "little", signed=True)
            except (TimeoutError, BlockingIOError):
                return None
            self._answers.close()
        return self.returncode


_STARTED = []


def zygote():
    """Where the process listens that is forked, started when it is first asked for."""
    if not _STARTED:
        path = Path(tempfile.mkdtemp()) / "zygote"
        process = subprocess.Popen([sys.executable, Path(__file__).parent / "zygote.py", path], stdin=PIPE)
        _STARTED.append(str(path))
        atexit.register(process.send_signal, signal.SIGKILL)
        while not path.exists() and process.poll() is None:
            time.sleep(0.02)
    return _STARTED[0]
