"""Python processes that have torch and unmask imported already: `python tests/zygote.py SOCKET`.

Importing is most of what a command of the tests does. This process imports once and forks for each request, so that
what is forked is a process of its own like any other: it has its own files, can be killed, and ends with a code.
A request is (arguments, folder, environment) with three files; the answers are the process's number and its code.
"""

import contextlib
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import threading
import traceback
import types

SIZE = 8


def serve(path: str) -> None:
    """Until nobody holds the other end of our input."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{path}.deaf")  # whoever came between the two would be refused, so it has its name afterwards
    listener.listen()
    os.rename(f"{path}.deaf", path)
    woken, wake = socket.socketpair()
    wake.setblocking(False)
    signal.set_wakeup_fd(wake.fileno())
    signal.signal(signal.SIGCHLD, lambda *_: None)
    waiting: dict[int, socket.socket] = {}
    with selectors.DefaultSelector() as events:
        for source in (listener, woken, sys.stdin):
            events.register(source, selectors.EVENT_READ)
        while True:
            ready = {key.fileobj for key, _ in events.select()}
            if listener in ready:
                asked = listener.accept()[0]
                pid = forked(*received(asked))
                waiting[pid] = asked
                asked.sendall(pid.to_bytes(SIZE, "little"))
            if woken in ready:
                woken.recv(4096)
                reap(waiting)
            if sys.stdin in ready:
                return


def received(asked: socket.socket) -> tuple[list[str], str, dict[str, str], list[int]]:
    """A request."""
    head, files, _, _ = socket.recv_fds(asked, SIZE, 3)
    left, parts = int.from_bytes(head, "little"), []
    while left:
        parts.append(asked.recv(min(left, 1 << 16)))
        left -= len(parts[-1])
    arguments, folder, environment = json.loads(b"".join(parts))
    return arguments, folder, environment, files


def reap(waiting: dict[int, socket.socket]) -> None:
    """Say how those ended that did."""
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            pid, status = ended
            with waiting.pop(pid) as asked, contextlib.suppress(OSError):
                asked.sendall(os.waitstatus_to_exitcode(status).to_bytes(SIZE, "little", signed=True))


def forked(arguments: list[str], folder: str, environment: dict[str, str], files: list[int]) -> int:
    """The number of a process that does what python would do with these arguments."""
    pid = os.fork()
    if pid:
        for file in files:
            os.close(file)
        return pid
    code = 1
    try:
        become(folder, environment, files)
        code = finished(arguments)
    except BaseException:
        traceback.print_exc()
    finally:
        with contextlib.suppress(BaseException):
            threading._shutdown()  # waits for threads, as at the end of python
            sys.stdout.flush()
        os._exit(code)


def become(folder: str, environment: dict[str, str], files: list[int]) -> None:
    """Leave the parent's world for one's own."""
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for place, file in enumerate(files):
        os.dup2(file, place)
    os.closerange(3, 256)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w", buffering=1)
    torch.set_num_threads(int(environment.get("OMP_NUM_THREADS", THREADS)))  # nothing was computed before the fork


def finished(arguments: list[str]) -> int:
    """Run `-m MODULE …`, `-c CODE …` or `FILE …`, and say with which code it ended."""
    sys.path[0] = ""
    kind = arguments[0]
    sys.argv = arguments if kind not in ("-m", "-c") else [kind, *arguments[2:]]
    try:
        if kind == "-m":
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        elif kind == "-c":
            sys.modules["__main__"] = main = types.ModuleType("__main__")
            exec(arguments[1], vars(main))  # noqa: S102
        else:
            runpy.run_path(kind, run_name="__main__")
    except SystemExit as stop:
        if isinstance(stop.code, str):
            print(stop.code, file=sys.stderr)
            return 1
        return stop.code or 0
    return 0


if __name__ == "__main__":
    import torch
    import torch._dynamo

    import unmask.cli.main
    import unmask.cli.train
    import unmask.run.train  # noqa: F401

    THREADS = torch.get_num_threads()
    serve(sys.argv[1])
