"""Golden cases, written from the descriptions of the protocols: what a row becomes, and how rows are cut."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.nn import functional

from tests.commands import command
from unmask.evaluation import (
    PROTOCOLS,
    Accuracy,
    Answered,
    Question,
    Share,
    accuracy,
    answer,
    find_detokeniser,
    find_protocol,
    find_text,
    read_questions,
)
from unmask.evaluation.choices import _row
from unmask.run import load
from unmask.run.zero_shot import ZeroShot
from unmask.sampling import Predictor

GOLDEN = [
    ("wikitext", " = = Career = = \n", " == Career ==\n"),
    ("wikitext", "a guest @-@ starring role , in 1 @,@ 000 @.@ 5 miles .", "a guest-starring role, in 1,000.5 miles ."),
    ("wikitext", 'as " Craig " ( actor ) and [ sic ]', 'as "Craig" (actor) and [sic]'),
    ("wikitext", "a club 's door ; open ! now ? yes : no", "a club's door; open! now? yes: no"),
    (
        "ptb",
        "abc 's viewers ' opinions do n't cost $ N or # N more",
        "abc's viewers' opinions don't cost $1 or #1 more",
    ),
    ("ptb", "<unk> and\\/or N years", "? and/or 1 years"),
    ("lm1b", "He said , go to http : / / x .", "He said, go to http://x ."),
    ("lm1b", "It 's $ 5.50 ( about £ 4 )", "It's $5.50 (about £4)"),
    ("lm1b", "US $ or £ notes", "US $or £notes"),  # published so: a price or not
    ("papers", "the rate ( @xmath1 ) is 1 @,@ 000 , or 'about' $ 5 .", "the rate (@xmath1) is 1,000, or'about' $5."),
    ("lambada", "“Go,” he said. \n", '\n"Go," he said.'),
    ("none", " as @-@ is ", " as @-@ is "),
]


@pytest.mark.parametrize(("name", "before", "after"), GOLDEN)
def test_detokenisers(name, before, after):
    assert find_detokeniser(name)(before) == after


def rows(*lengths):
    """Rows of ones, twos, threes …"""
    return [np.full(length, i + 1) for i, length in enumerate(lengths)]


def test_md4_joins_and_cuts_once():
    assert find_protocol("md4").sequences(rows(3, 2, 4), 5, 0).tolist() == [[1, 1, 1, 0, 2], [2, 0, 3, 3, 3]]


def test_sedd_cuts_each_thousand_rows_by_itself():
    """1,000 rows of 1 token and its end are 2,000 tokens: 285 blocks of 7, 5 tokens lost; the next 10 rows: 2 of 7."""
    many = [np.array([5])] * 1010
    found = find_protocol("sedd").sequences(many, 7, 0)
    assert len(found) == 2000 // 7 + 20 // 7
    assert len(find_protocol("md4").sequences(many, 7, 0)) == 2020 // 7
    assert found[0].tolist() == [5, 0, 5, 0, 5, 0, 5]


def test_mdlm_wraps_every_block():
    assert find_protocol("mdlm").sequences(rows(3, 2), 5, 0).tolist() == [[0, 1, 1, 1, 0], [0, 0, 2, 2, 0]]


@pytest.mark.parametrize("name", PROTOCOLS)
def test_short_sets_give_nothing(name):
    assert find_protocol(name).sequences(rows(2), 8, 0).shape[0] == 0


def test_unknown_names():
    with pytest.raises(ValueError, match="unknown protocol"):
        find_protocol("gpt")
    with pytest.raises(ValueError, match="unknown detokeniser"):
        find_detokeniser("gpt")


def test_zero_shot_from_files(subwords, tmp_path, capsys):
    (tmp_path / "a.txt").write_text("the cat 's mat\n" * 40)
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": "the dog sat"}) + "\n" for _ in range(40)))
    for name, protocol in (("a.txt", "sedd"), ("a.jsonl", "mdlm")):
        words = ("--text", tmp_path / name, "--protocol", protocol, "--detokeniser", "ptb")
        code, out, _ = command(capsys, "eval", subwords, *words, "--json")
        found = json.loads(out)
        assert code == 0
        assert (found["protocol"], found["detokeniser"], found["file"]) == (protocol, "ptb", name)
        assert found["tokens"] == 16 * found["sequences"]
        assert found["perplexity"]["value"] > 1
    code, out, _ = command(capsys, "eval", subwords, "--text", tmp_path / "a.txt")
    assert "protocol sedd, detokeniser none" in out


def test_questions(subwords, letters, tmp_path, capsys):
    """Two formats of the file; an untrained model is near chance, within its error."""
    path = tmp_path / "questions.jsonl"
    forms = [
        {"ctx": "the cat", "endings": ["sat on", "log"], "label": "0"},
        {"question": "the", "choices": ["dog", "mat"], "answer": 1},
    ]
    path.write_text("".join(json.dumps(forms[i % 2]) + "\n" for i in range(10)))
    assert [q.answer for q in read_questions(path)][:2] == [0, 1]
    for number in (-1, 2):
        wrong = tmp_path / "wrong.jsonl"
        wrong.write_text(json.dumps(forms[1] | {"answer": number}))
        with pytest.raises(ValueError, match=r"line 1 of .*wrong.jsonl is not a question"):
            list(read_questions(wrong))
    for flags in ([], ["--whole"]):
        code, out, _ = command(capsys, "eval", subwords, "--choices", path, "--json", *flags)
        found = json.loads(out)
        assert code == 0
        assert found["questions"] == 10
        assert 0 <= found["accuracy"] <= 1
        assert found["error"] == pytest.approx(Share(found["accuracy"], 10).error)
        assert (found["accuracy_per_byte"] is None) == (found["error_per_byte"] is None) == bool(flags)
        code, again, _ = command(capsys, "eval", subwords, "--choices", path, *flags)  # read from stored answers
        assert code == 0
        assert f"accuracy {found['accuracy']:.1%}" in again
        assert ("per byte" in again) != bool(flags)
    code, out, _ = command(capsys, "eval", subwords, "--choices", path, "--draws", 2)
    kept = Path(out.rpartition("saved in ")[2].strip())
    assert json.loads(kept.read_text())["draws"] == 2
    path.write_text(json.dumps({"ctx": "aAb", "endings": ["B", "A"], "label": 0}) + "\n")
    code, _, err = command(capsys, "eval", letters, "--choices", path)
    assert code == 2  # an ending begins with a space, which this alphabet does not have
    assert "not in the vocabulary" in err
    path.write_text('{"ctx": "a", "endings": ["b"], "label": 3}\n')
    code, _, err = command(capsys, "eval", subwords, "--choices", path)
    assert code == 2
    assert "line 1 of" in err


def test_questions_have_their_own_masks_and_endings_share_them(subwords):
    """The same question under another number costs something else; the same ending, or number, costs the same."""
    model = load(subwords)
    twins = Question("the cat", ("sat on the mat", "sat on the mat"), 0)

    def costs(*numbers):
        asked = dict.fromkeys(numbers, twins)
        estimator, vocabulary = model.estimator(), model.vocabulary
        found = answer(model.network, asked, estimator, vocabulary, length=16, draws=1)
        return [one.nats for one in found]

    first, second = costs(0, 1)
    assert first[0] == first[1] != second[0] == second[1]
    assert costs(1)[0] == pytest.approx(second, rel=1e-6)


def test_the_papers_way_fills_rows_up_and_hides_everything(subwords):
    vocabulary = load(subwords).vocabulary
    whole, ending = (_row("the cat", "sat on", vocabulary, 16, way) for way in (True, False))
    assert len(whole.tokens) == 16
    assert whole.begin == 0
    assert whole.tokens[len(ending.tokens) :].tolist() == [vocabulary.eos_id] * (16 - len(ending.tokens))
    assert vocabulary.decode(ending.tokens[ending.begin :].numpy()) == " sat on"


def test_accuracy_by_both_measures():
    """The short ending is cheaper in total, the long one per byte."""
    found = accuracy([Answered((3.0, 4.0), (1, 8), 1), Answered((3.0, 4.0), (1, 8), 0)])
    assert (found.accuracy, found.accuracy_per_byte) == (0.5, 0.5)
    assert accuracy([Answered((3.0, 4.0), (1, 8), 1)]).accuracy_per_byte == 1
    assert accuracy([Answered((3.0, 4.0), None, 0)]) == Accuracy(1, 1.0, Share(1.0, 1).error, None, None)


def test_texts_are_measured_along_the_steps_that_are_asked_for(subwords, tmp_path, capsys):
    """One step guesses every token from masks alone: by hand. Another grid gives another value, in another file."""
    (tmp_path / "a.txt").write_text("the cat sat on the mat\n" * 20)
    words = ("eval", subwords, "--text", tmp_path / "a.txt", "--draws", 8, "--json")
    ways = [("--steps", 1), ("--steps", 4), ("--steps", 4, "--grid", "cosine")]
    found = [json.loads(command(capsys, *words, *way)[1]) for way in ways]
    assert [(one["steps"], one["grid"]) for one in found] == [(1, "uniform"), (4, "uniform"), (4, "cosine")]
    one, even, cosine = (one["bits_per_token"]["mean"] for one in found)
    model = load(subwords)
    wanted = ZeroShot(find_text(str(tmp_path / "a.txt"), None))
    tokens = torch.from_numpy(wanted.sequences(model.vocabulary, model.facts.shape[0]))
    logits = Predictor(model.network, model.process.mask_id)(
        torch.full_like(tokens, model.process.mask_id), torch.ones(len(tokens)), torch.ones_like(tokens, dtype=bool)
    )
    assert one == pytest.approx(functional.cross_entropy(logits, tokens.flatten()).item() / math.log(2), rel=1e-3)
    assert len({one, even, cosine}) == 3


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--text", "FILE", "--steps", 2, 4), "too many --steps for --text: got 2"),
        (("--text", "FILE", "--steps", 0), "steps is too small"),
        (("--choices", "FILE", "--steps", 4), "--choices does not use this: got --steps,"),
        (("--choices", "FILE", "--grid", "cosine"), "--choices does not use this: got --grid,"),
        (("--orders", 2, "--steps", 4, "--grid", "cosine"), "--orders does not use this: got --grid, --steps,"),
        (("--text", "FILE", "--choices", "FILE"), "--text does not use this: got --choices,"),
        (("--text", "FILE", "--split", "valid"), "--text does not use this: got --split,"),
        (("--protocol", "md4", "--whole"), "a split does not use this: got --protocol, --whole, allowed: --split"),
    ],
)
def test_flags_are_refused_where_they_would_do_nothing(words, said, subwords, tmp_path, capsys):
    path = tmp_path / "a.jsonl"
    path.write_text(json.dumps({"question": "the", "choices": ["dog", "mat"], "answer": 1}) + "\n")
    code, out, err = command(capsys, "eval", subwords, *(path if word == "FILE" else word for word in words))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_the_text_must_have_an_end(letters, tmp_path, capsys):
    (tmp_path / "a.txt").write_text("aAbB\n" * 20)
    code, _, err = command(capsys, "eval", letters, "--text", tmp_path / "a.txt")
    assert code == 2
    assert "the protocol needs a model of running text with an end" in err
