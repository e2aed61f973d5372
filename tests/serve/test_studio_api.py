"""The studio's routes other than trajectories: text to tokens, tokens to text, descriptions of the models."""

import math

import pytest
import torch
from fastapi.testclient import TestClient

from unmask.cli.train import apply
from unmask.run import Run, default_config, load, train
from unmask.sampling import SAMPLERS
from unmask.serve import application


@pytest.fixture(scope="module")
def client(letters, subwords, pictures):
    runs = {"letters": letters, "subwords": subwords, "pictures": pictures}
    with TestClient(application({name: load(run) for name, run in runs.items()})) as found:
        yield found


def asked(client, path, **body):
    answer = client.post(f"/api/{path}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def refused(client, path, **body):
    answer = client.post(f"/api/{path}", json=body)
    assert answer.status_code == 400
    return answer.json()["error"]["message"]


def test_gaps_are_null(client):
    found = asked(client, "tokens", model="letters", text="aA____bB", gaps=True)
    assert [token["text"] for token in found] == ["a", "A", None, None, None, None, "b", "B"]
    assert [token["id"] is None for token in found] == [False, False, True, True, True, True, False, False]
    assert len(asked(client, "tokens", model="subwords", text="the [MASK:3] sat", gaps=True)) == 5
    assert all(token["id"] is not None for token in asked(client, "tokens", model="subwords", text="the ____ sat"))
    assert asked(client, "tokens", model="letters", text="", gaps=True) == []


def test_gaps_have_a_limit(client):
    """All gaps together, and numbers of any length: Python does not parse 5000 digits."""
    for text, got in (
        ("a[MASK:99999999999]", "[MASK:99999999999]"),
        ("[MASK:2048]" * 1000, "[MASK:2048]"),
        (f"[MASK:{'9' * 5000}]", f"[MASK:{'9' * 34}…"),
    ):
        said = refused(client, "tokens", model="letters", text=text, gaps=True)
        assert said == f"a gap is too large: got {got}, allowed: at most 2048 tokens in all gaps; ask for fewer"


def test_gaps_have_a_limit_without_a_server(letters):
    for digits in (12, 5000):
        with pytest.raises(ValueError, match="a gap is too large"):
            load(letters, device="cpu").infill(f"a[MASK:{'9' * digits}]")


@pytest.mark.parametrize("text", ["the cat sat", "naïve 😀😀 “mat”", "ï", ""])
def test_pieces_make_up_the_text(client, text):
    tokens = asked(client, "tokens", model="subwords", text=text)
    assert "".join(token["text"] for token in tokens) == text
    found = asked(client, "text", model="subwords", tokens=[token["id"] for token in tokens])
    assert found == {"text": text, "pieces": [token["text"] for token in tokens]}


def test_a_gap_breaks_a_character(client):
    ids = [token["id"] for token in asked(client, "tokens", model="subwords", text="ï")]
    assert len(ids) == 2
    found = asked(client, "text", model="subwords", tokens=[ids[0], None, ids[1]])
    assert found["pieces"] == ["\ufffd", None, "\ufffd"]


def test_unknown_tokens_are_refused(client):
    assert refused(client, "text", model="letters", tokens=[10**30]).startswith("no such token: got 1000")
    assert refused(client, "alternatives", model="letters", tokens=[None], place=0, token=99).startswith(
        "no such token"
    )
    assert refused(client, "text", model="pictures", tokens=[1]).startswith("this is not a text model")


def test_the_chosen_token_is_among_its_alternatives(client):
    body = {"model": "letters", "tokens": [0, None], "place": 1}
    everything = {row["id"]: row["probability"] for row in asked(client, "alternatives", **body, count=50)}
    assert sum(everything.values()) == pytest.approx(1)
    rarest = min(everything, key=everything.__getitem__)
    found = asked(client, "alternatives", **body, count=2, token=rarest)
    assert [row["id"] for row in found][2:] == [rarest]
    assert found[2]["probability"] == pytest.approx(everything[rarest], rel=1e-4)


@pytest.mark.parametrize(("place", "start"), [(3, 0), (20, 12), (38, 24)])
def test_alternatives_in_a_long_text_are_those_of_a_window_around_the_place(place, start, client):
    """The model's window has 16 tokens: tokens further away change nothing."""
    tokens = [(7 * i) % 4 for i in range(40)]
    found = asked(client, "alternatives", model="letters", tokens=tokens, place=place)
    inside = {"tokens": tokens[start : start + 16], "place": place - start}
    assert found == asked(client, "alternatives", model="letters", **inside)


def test_alternatives_are_those_at_the_time_of_the_models_schedule(letters, tmp_path):
    """A share cos(π(1−t)/2) is masked at t: two of four tokens at t = 1/3; a linear schedule would give t = 1/2."""
    small = "--layers 1 --heads 2 --width 16 --steps 1 --batch-size 4 --preview 0 --validation-sequences 2"
    words = (*small.split(), "--schedule", "cosine", "--time")
    list(train(apply(default_config(Run(letters).config.data), words), tmp_path / "run", torch.device("cpu")))
    model = load(tmp_path / "run")
    with torch.no_grad():  # a new network starts with zeros and predicts the same at all times
        for parameter in model.method.parameters():
            parameter.normal_(std=0.5, generator=torch.Generator().manual_seed(parameter.numel()))
    with TestClient(application({"cosine": model})) as client:
        rows = asked(client, "alternatives", model="cosine", tokens=[0, None, 1, 2], place=2, count=8)
    x = torch.tensor([[0, model.process.mask_id, model.process.mask_id, 2]])

    def law(t):
        return model.network(x, torch.tensor([t]))[0, 2].softmax(-1)

    shown = torch.zeros(model.vocabulary.size)
    shown[[row["id"] for row in rows]] = torch.tensor([row["probability"] for row in rows])
    torch.testing.assert_close(shown, law(1 - 2 / math.pi * math.acos(0.5)))
    assert (shown - law(0.5)).abs().max() > 0.01


@pytest.mark.parametrize(
    ("path", "body", "last"),
    [
        ("/v1/completions", {"prompt": "aA", "stream": True, "echo": True}, "data: [DONE]"),
        ("/api/trajectory", {"tokens": [None] * 16}, "event: error"),
    ],
)
def test_a_stream_that_fails_says_so(letters, monkeypatch, caplog, path, body, last):
    """The status has already been sent: an event reports the error to the client, and the log has the reason."""
    model = load(letters, device="cpu")
    whole, left = model.network.features, iter([True] * 3)
    monkeypatch.setattr(model.network, "features", lambda *x: whole(*x) if next(left, False) else 1 / 0)
    with TestClient(application({"letters": model})) as client:
        answer = client.post(path, json={"model": "letters", **body})
    assert answer.status_code == 200
    assert '"internal server error: see the server log"' in answer.text
    assert answer.text.rstrip().split("\n\n")[-1].startswith(last)
    assert "ZeroDivisionError" in caplog.text


def test_models_say_what_the_page_must_know(client):
    models = {model["id"]: model for model in client.get("/api/models").json()}
    assert [models[name]["kind"] for name in ("letters", "subwords", "pictures")] == ["text", "text", "picture"]
    assert models["letters"]["alphabet"] == "ABCDabcd"
    assert models["subwords"]["alphabet"] is None
    assert models["subwords"]["subwords"]
    assert models["pictures"]["classes"] == ["0", "1", "2"]


def test_every_sampler_on_offer_works(client):
    for model in client.get("/api/models").json()[:1]:
        names = [sampler["name"] for sampler in model["samplers"]]
        assert model["sampler"] in names
        assert "thinning" in SAMPLERS
        assert "thinning" not in names, "it is for polynomial schedules"
        for name in names:
            body = {"model": model["id"], "tokens": [0, None, None, 1], "sampler": name, "steps": 2}
            answer = client.post("/api/trajectory", json=body)
            assert answer.status_code == 200, (name, answer.text)
            assert "event: end" in answer.text
