"""A server among strangers: keys, sizes, nonsense, clients that go away, a full queue, and its end."""

import json
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import openai
import pytest

from tests import processes
from unmask.cli.main import main

from .conftest import serving

LONG = {"model": "letters", "prompt": "a", "max_tokens": 63, "steps": 400, "seed": 0}
"""Takes a second or two: seven windows of 400 steps each."""

VERY_LONG = LONG | {"max_tokens": 2000, "steps": 1024}
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
    with serving(named_models[0], UNMASK_API_KEY="open-sesame") as (address, _):
        for key in ("", "Bearer wrong", "open", "Bearer open-sesam\xe9"):
            answer = httpx.get(f"{address}/v1/models", headers={"Authorization": key.encode("latin-1")} if key else {})
            assert answer.status_code == 401
            assert answer.json()["error"]["code"] == "invalid_api_key"
        assert httpx.post(f"{address}/api/tokens", json={}).status_code == 401
        assert httpx.get(f"{address}/healthz").status_code == 200
        with pytest.raises(openai.AuthenticationError):
            openai.OpenAI(base_url=f"{address}/v1", api_key="wrong", max_retries=0).models.list()
        assert openai.OpenAI(base_url=f"{address}/v1", api_key="open-sesame").models.list().data[0].id == "letters"
        assert is_well(address, Authorization="Bearer open-sesame")


def test_a_page_elsewhere_cannot_give_us_another_name(address):
    assert httpx.get(f"{address}/v1/models", headers={"Host": "evil.example"}).status_code == 400


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"null", b'"text"', b"\xff\xfe", b'{"model": "letters", "prompt": {"a": 1}}', b"[" * 100_000],
    ids=["empty", "cut", "list", "null", "string", "not UTF-8", "wrong kind", "deep"],
)
def test_malformed_bodies(address, body):
    answer = httpx.post(f"{address}/v1/completions", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert "\n" not in answer.json()["error"]["message"]
    assert is_well(address)


def test_bodies_without_a_type_are_refused(address):
    """So that a form on another page cannot reach us."""
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
            pass  # the server has hung up on us before we were done
    host, port = address.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as raw:
        raw.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n")
        assert b"413" in raw.recv(4096).split(b"\r\n")[0]
    assert is_well(address)


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_away_is_not_worked_for(named_models, stream):
    with serving(named_models[0]) as (address, _):
        client = subprocess.Popen(
            [sys.executable, "-c", ASK, f"{address}/v1/completions", json.dumps(VERY_LONG | {"stream": stream})]
        )
        running = 'unmask_jobs_running{model="letters"}'
        until(lambda: figures(address)[running] == 1)
        client.kill()
        client.wait()
        until(lambda: figures(address)[running] == 0, seconds=5)
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
        until(lambda: figures(address)['unmask_jobs_running{model="letters"}'] == 1)
        process.send_signal(signal.SIGTERM)
        asking.join()
        assert answers[0].status_code == 200
        assert len(answers[0].json()["choices"][0]["text"]) == 63
        assert process.wait(timeout=20) in (0, -signal.SIGTERM)
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{address}/healthz")


def refused(capsys, *words):
    assert main(["serve", *map(str, words)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.count("\n") == 1
    return said.err


def test_bad_input_is_one_line(named_models, tmp_path, capsys, monkeypatch):
    monkeypatch.delenv("UNMASK_API_KEY", raising=False)
    model = named_models[0]
    assert "a public address needs an API key" in refused(capsys, model, "--host", "0.0.0.0")  # noqa: S104
    assert "no such port" in refused(capsys, model, "--port", 99999)
    with socket.create_server(("127.0.0.1", 0)) as busy:
        assert "Address already in use" in refused(capsys, model, "--port", busy.getsockname()[1])
    assert "is not a run or a model" in refused(capsys, tmp_path, "--port", 0)
    assert "queue is not positive" in refused(capsys, model, "--queue", 0)
    assert "no model to serve" in refused(capsys)


def test_a_damaged_model_is_not_served(letters, tmp_path):
    """In a real process: it says what is wrong, and nothing listens."""
    shutil.copytree(letters, tmp_path / "run")
    for weights in tmp_path.rglob("*.safetensors"):
        weights.write_bytes(weights.read_bytes()[:100])
    command = [sys.executable, "-m", "unmask", "serve", str(tmp_path / "run"), "--port", "0", "--json"]
    done = processes.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "is damaged" in done.stderr
    assert "has no checkpoint yet" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
