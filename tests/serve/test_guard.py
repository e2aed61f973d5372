"""A server facing untrusted clients: keys, sizes, invalid bodies, disconnects, a full queue and shutdown."""

import json
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import httpx
import openai
import pytest

from tests import processes
from unmask.cli.main import main

from .conftest import serving

LONG = {"model": "letters", "prompt": "a", "max_tokens": 63, "steps": 400, "seed": 0}
"""Takes a second or two: seven windows of 400 steps each."""

VERY_LONG = LONG | {"max_tokens": 2000, "steps": 1024}
RUNNING, WAITING = 'unmask_jobs_running{model="letters"}', 'unmask_jobs_waiting{model="letters"}'
ASK = "import sys, json, httpx; httpx.post(sys.argv[1], json=json.loads(sys.argv[2]), timeout=99)"


def is_well(address, **headers):
    body = {"model": "letters", "prompt": "aA", "max_tokens": 4, "steps": 4}
    return httpx.post(f"{address}/v1/completions", json=body, headers=headers).status_code == 200


def figures(address):
    lines = (line.rsplit(" ", 1) for line in httpx.get(f"{address}/metrics").text.splitlines() if line[0] != "#")
    return {name: float(value) for name, value in lines}


def until(condition, seconds=15):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.02)


def test_keys(named_models):
    """The key may end in the newline of the file it was read from; the scheme is case-insensitive, as in HTTP."""
    with serving(named_models[0], UNMASK_API_KEY="open-sesame\n") as (address, _):
        for key in ("", "Bearer wrong", "open", "Bearer open-sesam\xe9", "open-sesame", "Basic open-sesame"):
            answer = httpx.get(f"{address}/v1/models", headers={"Authorization": key.encode("latin-1")} if key else {})
            assert answer.status_code == 401
            assert answer.json()["error"]["code"] == "invalid_api_key"
        assert httpx.post(f"{address}/api/tokens", json={}).status_code == 401
        assert httpx.get(f"{address}/healthz").status_code == 200
        with pytest.raises(openai.AuthenticationError):
            openai.OpenAI(base_url=f"{address}/v1", api_key="wrong", max_retries=0).models.list()
        assert openai.OpenAI(base_url=f"{address}/v1", api_key="open-sesame").models.list().data[0].id == "letters"
        assert is_well(address, Authorization="Bearer open-sesame")
        assert is_well(address, Authorization="bearer open-sesame")


def test_a_page_elsewhere_cannot_give_us_another_name(address):
    for name in ("evil.example", "evil.example:80", "localhost.evil.example", "127.0.0.1:80@evil.example", ""):
        answer = httpx.get(f"{address}/v1/models", headers={"Host": name})
        assert answer.status_code == 400
        assert "unknown host name" in answer.json()["error"]["message"]
    for name in ("localhost", "LOCALHOST:8000", "127.0.0.1:1", "[::1]", "[::1]:8000"):
        assert httpx.get(f"{address}/v1/models", headers={"Host": name}).status_code == 200


_OBJECT = "the body is not a JSON object: send one, with Content-Type: application/json"


@pytest.mark.parametrize(
    ("body", "says"),
    {
        "empty": (b"", _OBJECT),
        "cut": (b"{", "the body is not JSON: Expecting property name enclosed in double quotes at character 1"),
        "list": (b"[]", _OBJECT),
        "null": (b"null", _OBJECT),
        "string": (b'"text"', _OBJECT),
        "not UTF-8": (b"\xff\xfe", "the body is not JSON: Expecting value at character 0"),
        "wrong kind": (
            b'{"model": "letters", "prompt": {"a": 1}}',
            "prompt: got {'a': 1}, allowed: a valid string; see /docs for the fields",
        ),
        "wrong item": (
            b'{"model": "letters", "stop": ["a", 1]}',
            "stop.1: got 1, allowed: a valid string; see /docs for the fields",
        ),
        "strange and missing": (
            b'{"prompts": "a", "temperature": NaN}',
            "temperature: got nan, allowed: less than or equal to 100; model: field is missing; "
            "prompts: unknown field; see /docs for the fields",
        ),
        "no text as a name": (
            b'{"model": "letters", "\\ud800": 1}',
            "a field name is not valid text: got '\\ud800'; see /docs for the fields",
        ),
        "deep": (
            b"[" * 100_000,
            "the body is not JSON: got maximum recursion depth exceeded while decoding a JSON array from a "
            "unicode stri…; send a JSON object in UTF-8",
        ),
        "broken in its middle": (
            b'{"model": "\xff"}',
            "the body is not JSON: got 'utf-8' codec can't decode byte 0xff in position 11: invalid start byte; "
            "send a JSON object in UTF-8",
        ),
    }.values(),
)
def test_malformed_bodies(address, body, says):
    """One line, without pydantic's names for the types of a field."""
    answer = httpx.post(f"{address}/v1/completions", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert answer.json()["error"]["message"] == says
    assert is_well(address)


def test_bodies_without_a_type_are_refused(address):
    """A form on another site must not reach the server."""
    plain = httpx.post(f"{address}/v1/completions", content=json.dumps(LONG), headers={"Content-Type": "text/plain"})
    assert plain.status_code == 400


def test_oversized_bodies(address):
    def endless():
        for _ in range(40):
            yield b"x" * 65536

    for content in (b"x" * (1 << 21), endless()):
        try:
            answer = httpx.post(f"{address}/v1/completions", content=content)
            assert answer.status_code == 413
            assert "1,048,576 bytes" in answer.json()["error"]["message"]
        except httpx.WriteError:
            pass  # the server closed the connection before the body was sent
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as raw:
        raw.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n")
        assert b"413" in raw.recv(4096).split(b"\r\n")[0]
    assert is_well(address)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({"prompt": [""] * 100_000, "max_tokens": 2048}, "too many samples: got 100000, allowed: at most 16"),
        ({"prompt": [[1]] * 150_000}, "prompt: got [[1], [1], [1], [1], [1], [1], ...], list should have at most 4096"),
        ({"prompt": [{}] * 200_000}, "prompt.0: got {}, allowed: a valid string"),
        (
            {"stop": ["b"] * 200_000},
            "stop: got ['b', 'b', 'b', 'b', 'b', 'b', ...], list should have at most 4",
        ),
        ({"stop": "b" * 200_000, "stream": True}, "stop: got 'bbbbbbbbbbbb...bbbbbbbbbbbbb', string should"),
    ],
    ids=["prompts", "prompts of tokens", "wrong prompts", "stops", "a long stop"],
)
def test_small_bodies_make_no_large_work(address, body, says):
    """A bad request of up to one megabyte is refused at once: other requests wait for the event loop meanwhile."""
    httpx.get(f"{address}/healthz")
    start = time.monotonic()
    answer = httpx.post(f"{address}/v1/completions", json=LONG | body)
    assert time.monotonic() - start < 3
    assert answer.status_code == 400
    assert answer.json()["error"]["message"].startswith(says), answer.text


@contextmanager
def asking(address, **body):
    """A client in its own process, which is killed at the end."""
    client = subprocess.Popen([sys.executable, "-c", ASK, f"{address}/v1/completions", json.dumps(body)])
    try:
        yield
    finally:
        client.kill()
        client.wait()


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_away_leaves_its_place_in_the_queue(named_models, stream):
    """Even while another job runs: otherwise a few disconnected clients would block all others. As long as it waits,
    others are refused, even if their prompt could be echoed at once.
    """
    with serving(named_models[0], flags=["--jobs", "1", "--queue", "1"]) as (address, _), asking(address, **VERY_LONG):
        until(lambda: figures(address)[RUNNING] == 1)
        with asking(address, **VERY_LONG | {"stream": stream}):
            until(lambda: figures(address)[WAITING] == 1)
            answer = httpx.post(f"{address}/v1/completions", json=LONG | {"stream": True, "echo": True})
            assert answer.status_code == 429
        until(lambda: figures(address)[WAITING] == 0, seconds=5)
        assert figures(address)[RUNNING] == 1


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_away_is_not_worked_for(named_models, stream):
    with serving(named_models[0]) as (address, _):
        with asking(address, **VERY_LONG | {"stream": stream}):
            until(lambda: figures(address)[RUNNING] == 1)
        until(lambda: figures(address)[RUNNING] == 0, seconds=5)
        assert figures(address)['unmask_network_call_rows_count{model="letters"}'] < 2000
        assert is_well(address)


def test_a_full_queue_says_when_to_come_back(named_models):
    with serving(named_models[0], flags=["--jobs", "1", "--queue", "2"]) as (address, _):

        def ask(_):
            return httpx.post(f"{address}/v1/completions", json=LONG, timeout=60)

        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(ask, range(8)))
        refused = [answer for answer in answers if answer.status_code == 429]
        assert {answer.status_code for answer in answers} == {200, 429}
        assert all(int(answer.headers["Retry-After"]) >= 1 for answer in refused)
        assert refused[0].json()["error"]["type"] == "rate_limit_error"
        assert is_well(address)


def test_stopped_it_finishes_what_runs(named_models):
    with serving(named_models[0]) as (address, process):
        answers = []
        asking = threading.Thread(
            target=lambda: answers.append(httpx.post(f"{address}/v1/completions", json=LONG, timeout=60))
        )
        asking.start()
        until(lambda: figures(address)[RUNNING] == 1)
        process.send_signal(signal.SIGTERM)
        asking.join()
        assert answers[0].status_code == 200
        assert len(answers[0].json()["choices"][0]["text"]) == 63
        assert process.wait(timeout=20) in (0, -signal.SIGTERM)
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{address}/healthz")


def test_stopped_it_cuts_off_what_does_not_end(named_models):
    """Running, waiting, streaming and incomplete requests get a JSON error, and the process ends."""
    soon = "import unmask.serve.server as server; server._FINISH = server._LEAVE = 1"
    with serving(named_models[0], flags=["--jobs", "2"], before=soon) as (address, process):

        def ask(how):
            return httpx.post(f"{address}/v1/completions", json=VERY_LONG | how, timeout=15)

        host, port = address.removeprefix("http://").split(":")
        with ThreadPoolExecutor(3) as pool, socket.create_connection((host, int(port))) as half:
            half.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{")
            first = [pool.submit(ask, how) for how in ({}, {"stream": True, "echo": True})]
            until(lambda: figures(address)[RUNNING] == 2)
            queued = pool.submit(ask, {"stream": True})
            until(lambda: figures(address)[WAITING] == 1)
            process.send_signal(signal.SIGTERM)
            whole, stream, late = (future.result() for future in (*first, queued))
            assert half.recv(4096).startswith(b"HTTP/1.1 503 ")
        assert process.wait(timeout=5) in (0, -signal.SIGTERM)
        assert "Traceback" not in process.stderr.read()
    for answer in (whole, late):
        assert answer.status_code == 503
        assert answer.json()["error"]["message"].startswith("the server is shutting down")
    events = stream.text.split("\n\n")
    assert json.loads(events[0].removeprefix("data: "))["choices"][0]["text"] == "a"
    assert json.loads(events[-3].removeprefix("data: "))["error"]["code"] == "stopped"
    assert events[-2:] == ["data: [DONE]", ""]


def refused(capsys, *words):
    assert main(["serve", *map(str, words)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    return said.err


def test_bad_input_is_one_line(named_models, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("UNMASK_API_KEY", raising=False)
    model = named_models[0]
    assert "a public address requires an API key" in refused(capsys, model, "--host", "0.0.0.0")  # noqa: S104
    assert "the port is out of range" in refused(capsys, model, "--port", 99999)
    with socket.create_server(("127.0.0.1", 0)) as busy:
        assert "Address already in use" in refused(capsys, model, "--port", busy.getsockname()[1])
    assert "is not a run or a model" in refused(capsys, tmp_path, "--port", 0)
    assert "queue is not positive" in refused(capsys, model, "--queue", 0)
    assert "no model to serve" in refused(capsys)
    monkeypatch.setenv("UNMASK_API_KEY", "open sesame")
    assert "the API key is not one word" in refused(capsys, model, "--port", 99999)


def test_a_damaged_model_is_not_served(letters, tmp_path):
    """In a real process: it reports the error and nothing listens."""
    shutil.copytree(letters, tmp_path / "run")
    for weights in tmp_path.rglob("*.safetensors"):
        weights.write_bytes(weights.read_bytes()[:100])
    command = [sys.executable, "-m", "unmask", "serve", str(tmp_path / "run"), "--port", "0", "--json"]
    done = processes.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "is damaged" in done.stderr
    assert "no other one is intact" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
