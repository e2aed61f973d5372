"""The routes that the studio calls."""

import json

import httpx
import pytest
import torch

from unmask.run import Sampling, load
from unmask.run.scored import scored


@pytest.fixture(scope="module")
def http(address):
    with httpx.Client(base_url=address) as client:
        yield client


def events(http, **body):
    with http.stream("POST", "/api/trajectory", json=body) as answer:
        assert answer.status_code == 200, answer.read()
        blocks = "".join(answer.iter_text()).strip().split("\n\n")
    named = [dict(line.split(": ", 1) for line in block.splitlines()) for block in blocks]
    return [(block["event"], json.loads(block["data"])) for block in named]


def test_models_say_what_a_page_must_know(http):
    found = {model["id"]: model for model in http.get("/api/models").json()}
    assert found["letters"]["kind"] == "text"
    assert found["pictures"]["shape"] == [4, 4]
    assert found["pictures"]["classes"] == ["0", "1", "2"]
    assert "ancestral" in [sampler["name"] for sampler in found["letters"]["samplers"]]
    assert "uniform" not in [sampler["name"] for sampler in found["letters"]["samplers"]]


def test_tokens(http):
    found = http.post("/api/tokens", json={"model": "subwords", "text": "the cat sat"}).json()
    assert "".join(token["text"] for token in found) == "the cat sat"
    assert http.post("/api/tokens", json={"model": "letters", "text": ""}).json() == []


@pytest.mark.parametrize("sampler", ["ancestral", "first-hitting", "remask-cap", "confidence"])
def test_the_steps_lead_to_the_end(http, sampler):
    """Replaying the changes gives the result; given tokens stay; every state is reported once."""
    given = [1, None, None, 2, None, None, None, 0]
    found = events(http, model="letters", tokens=given, n=2, seed=3, sampler=sampler, steps=16)
    state = [list(given), list(given)]
    assert found[0] == ("start", {"seed": 3, "samples": 2, "masked": 5})
    for name, step in found[1:-1]:
        assert name == "step"
        for change in step["changes"]:
            assert given[change["place"]] is None
            state[change["sample"]][change["place"]] = change["id"]
    assert found[-1][0] == "end"
    assert found[-1][1]["tokens"] == state
    assert len(found) > 4


def test_a_trajectory_is_the_models_own(http, letters):
    found = events(http, model="letters", tokens=[1, None, None, None], seed=9, steps=8)[-1][1]["tokens"]
    model = load(letters, device="cpu")
    row = torch.tensor([1] + [model.process.mask_id] * 3)
    assert found[0] == model.fill(row[None], Sampling(seed=9, steps=8)).tokens[0].tolist()


def test_pictures_are_completed(http):
    given = [7] * 8 + [None] * 8
    ((_, end),) = [e for e in events(http, model="pictures", tokens=given, label=2, guidance=2.0) if e[0] == "end"]
    assert end["tokens"][0][:8] == [7] * 8
    assert all(0 <= token < 256 for token in end["tokens"][0])


def test_alternatives_are_the_networks_probabilities(http, letters):
    body = {"model": "letters", "tokens": [0, None, None, None], "place": 1, "count": 8}
    found = http.post("/api/alternatives", json=body).json()
    model = load(letters, device="cpu")
    x = torch.tensor([[0] + [model.process.mask_id] * 3])
    expected = model.network(x)[0, 1].softmax(-1)
    for row in found:
        assert row["probability"] == pytest.approx(float(expected[row["id"]]), abs=1e-5)
        assert row["text"] == model.vocabulary.decode([row["id"]])
    assert sum(row["probability"] for row in found) == pytest.approx(1)


def test_score_is_the_commands(http, letters):
    found = http.post("/api/score", json={"model": "letters", "text": "aAbBcC", "draws": 4, "repeats": 2}).json()
    expected = scored(load(letters, device="cpu"), "aAbBcC", draws=4, repeats=2).document()
    assert found["bits"] == pytest.approx(expected["bits"], rel=1e-4)
    assert [token["text"] for token in found["tokens"]] == list("aAbBcC")


@pytest.mark.parametrize(
    ("path", "body", "says"),
    [
        ("trajectory", {"model": "letters", "tokens": [1, 2]}, "nothing to fill"),
        ("trajectory", {"model": "letters", "tokens": [None, 99]}, "no such token: got 99, allowed: 0..7"),
        ("trajectory", {"model": "letters", "tokens": [None, 10**30]}, "no such token"),
        ("trajectory", {"model": "pictures", "tokens": [None]}, "the row does not fit the model"),
        ("trajectory", {"model": "letters", "tokens": [None], "label": 1}, "no such class"),
        ("trajectory", {"model": "letters", "tokens": [None] * 3000}, "too many tokens"),
        ("trajectory", {"model": "letters", "tokens": [None], "label": 2**63}, "no such class"),
        ("trajectory", {"model": "pictures", "tokens": [None] * 16, "label": 2**63}, "no such class"),
        ("alternatives", {"model": "letters", "tokens": [None], "place": 4}, "no such position"),
        ("alternatives", {"model": "letters", "tokens": [1] * 40000, "place": 0}, "too many tokens: got 40000"),
        ("alternatives", {"model": "pictures", "tokens": [1] * 16, "place": 0, "label": 2**63}, "no such class"),
        ("score", {"model": "letters", "text": "a" * 99}, "the text does not fit the model"),
        ("score", {"model": "pictures", "text": "a"}, "this is not a text model"),
        ("tokens", {"model": "pictures", "text": "a"}, "this is not a text model"),
    ],
)
def test_mistakes_are_one_line(http, path, body, says):
    answer = http.post(f"/api/{path}", json=body)
    assert answer.status_code == 400
    assert says in answer.json()["error"]["message"]
