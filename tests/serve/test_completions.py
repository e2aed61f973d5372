"""OpenAI's client against a real server."""

import openai
import pytest

from unmask.run import load

HOW = {"steps": 8, "seed": 5}


@pytest.fixture(scope="module")
def client(address):
    with openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as found:
        yield found


def complete(client, prompt, **more):
    how = {"extra_body": {"steps": 8}, "seed": 5, "model": "letters", "max_tokens": 6} | more
    return client.completions.create(prompt=prompt, **how)


def test_models(client):
    assert [model.id for model in client.models.list()] == ["letters", "pictures", "subwords", "molecules"]
    assert client.models.retrieve("letters").id == "letters"


def test_a_completion_is_what_the_model_fills_in(client, letters):
    """The tokens equal those from Python with the same seed and steps."""
    found = complete(client, "aAbB")
    row = load(letters, device="cpu").infill("aAbB[MASK:6]", **HOW)
    assert "aAbB" + found.choices[0].text == row[0]
    assert found.choices[0].finish_reason == "length"
    assert (found.usage.prompt_tokens, found.usage.completion_tokens, found.usage.total_tokens) == (4, 6, 10)


@pytest.mark.parametrize("after", ["", "C"])
def test_rows_of_different_lengths_are_completed(client, molecules, after):
    """The longest row has four tokens; what follows a shorter text is its end."""
    found = complete(client, "C", suffix=after, max_tokens=1, model="molecules")
    (row,) = load(molecules, device="cpu").infill(f"C[MASK:1]{after}", **HOW)
    assert f"C{found.choices[0].text}{after}" == row
    streamed = complete(client, "C", suffix=after, max_tokens=1, model="molecules", stream=True)
    assert "".join(chunk.choices[0].text for chunk in streamed) == found.choices[0].text


def test_infilling(client, letters):
    found = complete(client, "aA", suffix="bBcC", max_tokens=4)
    (row,) = load(letters, device="cpu").infill("aA[MASK:4]bBcC", **HOW)
    assert "aA" + found.choices[0].text + "bBcC" == row


def test_several(client):
    """n numbered choices for each of several prompts; a prompt may be tokens; echo returns it."""
    found = complete(client, ["aA", "dDcC"], n=2, echo=True)
    assert [choice.index for choice in found.choices] == [0, 1, 2, 3]
    assert [choice.text[:2] for choice in found.choices] == ["aA", "aA", "dD", "dD"]
    assert len({choice.text for choice in found.choices[:2]}) == 2
    by_token = [complete(client, tokens, echo=True).choices[0].text for tokens in ([4, 0], [[4, 0]], "aA")]
    assert by_token[0] == by_token[1] == by_token[2]


def test_tokens_stay_as_they_are(client, subwords):
    """The tokens of single letters, which the text of these letters would not be split into."""
    vocabulary = load(subwords, device="cpu").vocabulary
    tokens = [int(vocabulary.encode(letter)[0]) for letter in "the"]
    assert len(vocabulary.encode("the")) == 1
    found = complete(client, tokens, model="subwords", echo=True)
    assert found.usage.prompt_tokens == 3
    assert found.choices[0].text.startswith("the")


def test_null_is_the_default(client):
    names = ("max_tokens", "temperature", "n", "stream", "echo", "stop", "suffix", "top_p", "presence_penalty")
    plain = client.completions.create(model="letters", prompt="aA", seed=5)
    found = client.completions.create(model="letters", prompt="aA", seed=5, extra_body=dict.fromkeys(names))
    assert found.choices == plain.choices


def test_the_seed_decides(client):
    texts = [complete(client, "aA", max_tokens=12, seed=seed).choices[0].text for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]
    unseeded = client.completions.create(model="letters", prompt="a", max_tokens=8)
    again = client.completions.create(model="letters", prompt="a", max_tokens=8, seed=unseeded.seed)
    assert again.choices[0].text == unseeded.choices[0].text


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"n": 3},
        {"stop": "bB"},
        {"stop": ["A", "B", "C", "D"], "n": 3},
        {"suffix": "dD"},
        {"stop": ["bBx", "Bb", "cCc"]},
        {"echo": True},
        {"echo": True, "n": 2, "prompt": ["aA", "bB"]},
        {"extra_body": {"sampler": "remask-cap", "steps": 8}},
    ],
)
def test_a_stream_adds_up_to_the_whole(client, more):
    how = {"prompt": "aA", "max_tokens": 12} | more
    whole = complete(client, **how)
    chunks = list(complete(client, stream=True, stream_options={"include_usage": True}, **how))
    for choice in whole.choices:
        parts = [part for chunk in chunks for part in chunk.choices if part.index == choice.index]
        assert "".join(part.text for part in parts) == choice.text
        assert [part.finish_reason for part in parts if part.finish_reason] == [choice.finish_reason]
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens


def test_a_stream_comes_in_pieces_from_left_to_right(client):
    chunks = [c.choices[0].text for c in complete(client, "aA", stream=True, max_tokens=14, extra_body={"steps": 64})]
    assert len([text for text in chunks if text]) >= 3


def test_stop_ends_the_text(client):
    plain = complete(client, "aA", max_tokens=12).choices[0]
    stop = plain.text[4:6]
    cut = complete(client, "aA", max_tokens=12, stop=[stop, "ZZ"]).choices[0]
    assert cut.text == plain.text[: plain.text.index(stop)]
    assert (plain.finish_reason, cut.finish_reason) == ("length", "stop")


def test_subwords_keep_their_spaces(client):
    """A prompt that ends in a space: the space belongs to the next subword and is not returned twice."""
    plain, spaced = (
        complete(client, prompt, model="subwords", max_tokens=4) for prompt in ("the cat sat", "the cat sat ")
    )
    assert spaced.choices[0].text == plain.choices[0].text.removeprefix(" ")
    assert spaced.usage == plain.usage


@pytest.mark.parametrize(
    ("more", "kind", "says"),
    [
        (
            {"model": "gpt-4"},
            openai.NotFoundError,
            "no such model: got 'gpt-4', allowed: letters, pictures, subwords",
        ),
        ({"model": "pictures"}, openai.BadRequestError, "this is not a text model"),
        ({"prompt": "π"}, openai.BadRequestError, "π"),
        ({"prompt": [10**9]}, openai.BadRequestError, "no such token"),
        ({"max_tokens": 10**12}, openai.BadRequestError, "too many tokens: got 1000000000000, allowed: at most 2048"),
        ({"n": 9, "prompt": ["a", "b"]}, openai.BadRequestError, "too many samples: got 18, allowed: at most 16"),
        ({"n": 1000}, openai.BadRequestError, "too many samples"),
        ({"max_tokens": 0}, openai.BadRequestError, "max_tokens"),
        ({"temperature": -1}, openai.BadRequestError, "temperature"),
        ({"logprobs": 3}, openai.BadRequestError, "logprobs"),
        ({"extra_body": {"sampler": "ancestrale"}}, openai.BadRequestError, "did you mean ancestral"),
        ({"extra_body": {"steps": 10**6}}, openai.BadRequestError, "too many steps"),
        ({"extra_body": {"colour": 1}}, openai.BadRequestError, "colour"),
        (
            {"stream": True, "extra_body": {"sampler": "thinning"}},
            openai.BadRequestError,
            "not defined for this schedule",
        ),
        (
            {"stream": True, "echo": True, "extra_body": {"sampler": "thinning"}},
            openai.BadRequestError,
            "not defined for this schedule",
        ),
    ],
)
def test_mistakes_are_one_line(client, more, kind, says):
    with pytest.raises(kind) as told:
        complete(client, **{"prompt": "aA"} | more)
    assert says in told.value.body["message"]
    assert "\n" not in told.value.body["message"]
