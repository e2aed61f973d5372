"""The adapter for lm-evaluation-harness, through the harness itself, on task files and data made here."""

import importlib
import json
import sys
from pathlib import Path

import pytest
import torch

pytest.importorskip("lm_eval")

from lm_eval.api.instance import Instance
from lm_eval.evaluator import simple_evaluate
from lm_eval.tasks import TaskManager

import unmask
from tests.small_models import trained
from unmask.core import estimate_nelbo
from unmask.evaluation import Question, answer, estimator_for
from unmask.evaluation.continuation import windows
from unmask.evaluation.loss import nelbo_in_chunks
from unmask.harness import HarnessModel, main
from unmask.training.md4 import SCHEDULES

CHOICE = """
task: pairs
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/pairs.jsonl}}, cache_dir: {folder}/cache}}
test_split: test
output_type: multiple_choice
doc_to_text: "{{{{question}}}}"
doc_to_choice: "{{{{choices}}}}"
doc_to_target: answer
target_delimiter: ""
metric_list: [{{metric: acc}}, {{metric: acc_norm}}]
"""
ROLLING = """
task: running
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/running.jsonl}}, cache_dir: {folder}/cache}}
test_split: test
output_type: loglikelihood_rolling
doc_to_text: ""
doc_to_target: "{{{{text}}}}"
metric_list: [{{metric: bits_per_byte}}, {{metric: byte_perplexity}}]
"""
GENERATE = """
task: upper
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/upper.jsonl}}, cache_dir: {folder}/cache}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{text}}}}"
doc_to_target: "{{{{next}}}}"
target_delimiter: ""
generation_kwargs: {{until: [a, b, c, d], max_gen_toks: 3, do_sample: false}}
metric_list: [{{metric: exact_match}}]
"""
PAIRS = [{"question": f"aAdDbB{a}", "choices": list("ABCD"), "answer": "ABCD".index(a.upper())} for a in "abcd"]
TEXTS = ["aAbBcCdD" * 5 + "aA", "cC", "dDbBaAcC" * 2]


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    """As the command has it, and no longer than a test."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three tasks about text in which a capital repeats the letter before it."""
    folder = tmp_path_factory.mktemp("tasks")
    upper = [{"text": "aAbB" * 6 + c, "next": c.upper()} for c in "abcd"]
    for name, task, rows in (
        ("pairs", CHOICE, PAIRS),
        ("running", ROLLING, [{"text": text} for text in TEXTS]),
        ("upper", GENERATE, upper),
    ):
        (folder / f"{name}.yaml").write_text(task.format(folder=folder))
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture(scope="module")
def alphabet(letters):
    return HarnessModel(letters, draws=8, steps=16, device="cpu")


@pytest.fixture(scope="module")
def results(letters, folder):
    return simple_evaluate(
        model="unmask",
        model_args=f"path={letters},draws=8,repeats=2,seed=0,steps=16,sampler=ancestral",
        batch_size=64,
        tasks=["pairs", "running", "upper"],
        task_manager=TaskManager(include_path=folder, include_defaults=False),
        bootstrap_iters=0,
    )


def ask(kind, *arguments):
    return [Instance(kind, {}, args, i) for i, args in enumerate(arguments)]


def likelihoods(model, *pairs):
    return model.loglikelihood(ask("loglikelihood", *pairs), disable_tqdm=True)


def generated(model, prompt, **how):
    return model.generate_until(ask("generate_until", (prompt, how)))[0]


# ------------------------------------------------------------------------------ through the harness


def test_multiple_choice(results, alphabet):
    found = results["results"]["pairs"]
    assert found["acc,none"] == found["acc_norm,none"] == 1
    for sample in results["samples"]["pairs"]:
        values = [r[0] for r in sample["resps"]]
        assert values == likelihoods(alphabet, *sample["arguments"])
        assert [right for _, right in values] == [i == sample["target"] for i in range(4)]


def test_rolling(results, alphabet):
    found = [sample["resps"][0][0] for sample in results["samples"]["running"]]
    assert found == alphabet.loglikelihood_rolling(ask("loglikelihood_rolling", *((t,) for t in TEXTS)), True)
    bits = -sum(found) / sum(map(len, TEXTS)) / torch.tensor(2.0).log().item()
    assert results["results"]["running"]["bits_per_byte,none"] == pytest.approx(bits)
    assert bits < 1.6  # 1 is the truth, 3 knows nothing


def test_generation(results):
    assert results["results"]["upper"]["exact_match,none"] == 1
    assert [sample["resps"][0][0] for sample in results["samples"]["upper"]] == list("ABCD")


# ------------------------------------------------------------------------------------- likelihoods


def test_likelihoods_are_those_of_answer(subwords):
    """Endings of the same length and of different ones."""
    ours = HarnessModel(subwords, draws=8, seed=3)
    model = ours.model
    question = Question("the cat", ("sat on", "sat in", "and the dog sat"), 0)
    estimator = estimator_for(model.process)
    how = {"length": 16, "draws": 8, "seed": 3}
    (theirs,) = answer(model.network, {0: question}, estimator, model.vocabulary, **how)
    found = likelihoods(ours, *((question.context, f" {ending}") for ending in question.endings))
    assert [-value for value, _ in found] == pytest.approx(theirs.nats, rel=1e-6)


def test_likelihoods_are_those_of_estimate_nelbo(alphabet):
    model, context, end = alphabet.model, "aAbBc", "CdD"
    x_0 = torch.from_numpy(model.vocabulary.encode(context + end).astype("int64"))[None]
    valid = torch.arange(8)[None] >= 5
    how = {"draws": 8, "repeats": 2, "seed": 0, "nelbo_fn": nelbo_in_chunks}
    bound = estimate_nelbo(model.network, x_0, alphabet.estimator, valid=valid, **how)
    assert likelihoods(alphabet, (context, end))[0][0] == pytest.approx(-bound.mean.item(), rel=1e-6)


def test_rolling_sums_the_rows(alphabet):
    """42 characters: 16, 16, and the last 16 of which 10 count."""
    model, text = alphabet.model, TEXTS[0]
    x_0 = torch.from_numpy(model.vocabulary.encode(text).astype("int64"))
    rows = torch.stack([x_0[:16], x_0[16:32], x_0[-16:]])
    valid = torch.arange(16) >= torch.tensor([0, 0, 6])[:, None]
    how = {"draws": 8, "repeats": 2, "seed": 0, "nelbo_fn": nelbo_in_chunks}
    bound = estimate_nelbo(model.network, rows, alphabet.estimator, valid=valid, **how)
    (found,) = alphabet.loglikelihood_rolling(ask("loglikelihood_rolling", (text,)), True)
    assert found == pytest.approx(-bound.mean.sum().item(), rel=1e-6)
    assert likelihoods(alphabet, ("", text))[0][0] == found
    assert alphabet.loglikelihood_rolling(ask("loglikelihood_rolling", ("",)), True) == [0.0]


def test_a_value_depends_on_seed_and_request_only(letters, alphabet):
    """Not on the other requests, nor on the batch: the random numbers are common to all."""
    pairs = [("aAb", "B"), ("aAb", "BcC"), ("cCdDa", "AbB"), ("aAb", "B")]
    found = likelihoods(alphabet, *pairs)
    assert found[0] == found[3]
    alone = [likelihoods(alphabet, pair)[0] for pair in pairs]
    small = likelihoods(HarnessModel(letters, draws=8, batch_size=1), *reversed(pairs))[::-1]
    other = likelihoods(HarnessModel(letters, draws=8, seed=1), *pairs)
    for values in (alone, small):
        assert [v for v, _ in values] == pytest.approx([v for v, _ in found], rel=1e-6)
        assert [r for _, r in values] == [r for _, r in found]
    assert other[1][0] != found[1][0]


def test_long_contexts_lose_their_beginning(alphabet):
    """Of 16 tokens 13 are left for the context."""
    long = "dD" * 20 + "aAbBc"
    found, same, less = likelihoods(alphabet, (long, "CaA"), (long[-13:], "CaA"), (long[-12:], "CaA"))
    assert found == same
    assert found[0] != less[0]


def test_spaces_belong_to_the_continuation(subwords):
    ours = HarnessModel(subwords, draws=4)
    a, b = likelihoods(ours, ("the cat ", "sat"), ("the cat", " sat"))
    assert a == b


@pytest.mark.parametrize(("before", "after"), [(0, 5), (3, 2), (20, 4), (0, 8), (0, 9), (5, 20), (2, 0)])
def test_windows_score_each_token_once(before, after):
    context, end = torch.arange(before), torch.arange(100, 100 + after)
    rows = windows(context, end, 8)
    assert [t for row in rows for t in row.tokens[row.begin :].tolist()] == end.tolist()
    assert all(len(row.tokens) <= 8 for row in rows)
    whole = torch.cat([context, end]).tolist()
    for row in rows:  # what is visible is what precedes
        place = whole.index(row.tokens[0].item())
        assert row.tokens.tolist() == whole[place : place + len(row.tokens)]


def greedy(model, context, end):
    """Confidence order, written out."""
    x = torch.from_numpy(model.vocabulary.encode(context + end).astype("int64"))[None]
    wanted, left = x.clone(), set(range(len(context), x.shape[1]))
    x[0, list(left)] = model.process.mask_id
    while left:
        t = model.process.schedule.inverse_mask_prob(torch.tensor([len(left) / len(end)]).double())
        mu = model.network(x, t.float(), None)[0].double().softmax(-1)
        best = max(sorted(left), key=lambda i: mu[i].max().item())
        x[0, best] = mu[best].argmax()
        left -= {best}
    return bool((x == wanted).all())


def test_greedy_is_what_decoding_gives(alphabet):
    pairs = [("aAbBc", "C"), ("aAbBc", "D"), ("aA", "bB"), ("", "aA")]
    pairs += [("aAbBcC", a + a.upper() + b + b.upper()) for a in "abcd" for b in "abcd"]
    found = [right for _, right in likelihoods(alphabet, *pairs)]
    assert found == [greedy(alphabet.model, *pair) for pair in pairs]
    assert found[:2] == [True, False]
    assert sum(found[4:]) <= 1  # decoding gives one text


def test_genmd4(letters, tmp_path):
    model = HarnessModel(trained(letters.parent / "data", tmp_path / "run", method="genmd4"), draws=4, steps=4)
    ((value, right),) = likelihoods(model, ("aAb", "BcC"))
    assert value < 0
    assert right in (True, False)
    assert len(generated(model, "aAb", max_gen_toks=5)) == 5


# -------------------------------------------------------------------------------------- generation


def test_stop_strings(alphabet):
    whole = generated(alphabet, "aAbBc", max_gen_toks=8)
    assert len(whole) == 8
    assert whole[0] == "C"
    assert generated(alphabet, "aAbBc", max_gen_toks=8, until=whole[3:5]) == whole[: whole.index(whole[3:5])]
    several = generated(alphabet, "aAbBc", max_gen_toks=8, until=["x", whole[5], whole[2]])
    assert several == whole[: min(whole.index(whole[5]), whole.index(whole[2]))]
    assert generated(alphabet, "aAbBc", max_gen_toks=8, until=[""]) == whole


def test_generation_stops_at_the_end_of_text(subwords):
    """What follows an end of text is not shown."""
    from unmask.harness import _Wanted

    ours = HarnessModel(subwords)
    wanted = _Wanted(ours, "the cat", {"max_gen_toks": 4})
    cat, dog = (ours.model.vocabulary.encode(word).tolist() for word in (" cat", " dog"))
    row = torch.tensor([*wanted.given.tolist(), *cat, ours.model.vocabulary.eos_id, *dog]).numpy()
    assert wanted.cut(row) == " cat"


def test_long_prompts_leave_room(alphabet):
    """The prompt is cut at its left; more than a row is filled block by block."""
    long = "dD" * 20 + "aAbBc"
    assert generated(alphabet, long, max_gen_toks=4) == generated(alphabet, long[-12:], max_gen_toks=4)
    assert len(generated(alphabet, long, max_gen_toks=40)) == 40
    assert len(generated(alphabet, "", max_gen_toks=6)) == 6


def test_temperature(letters, alphabet):
    """The task's, unless the model is told otherwise; without sampling it is 0."""
    cold = [generated(alphabet, "aA", max_gen_toks=8, **how) for how in ({}, {"do_sample": False, "temperature": 2.0})]
    assert cold[0] == cold[1]
    hot = generated(alphabet, "aA", max_gen_toks=8, do_sample=True, temperature=5.0)
    assert hot != cold[0]
    assert generated(HarnessModel(letters, draws=8, steps=16, temperature=5.0), "aA", max_gen_toks=8) == hot
    mixed = alphabet.generate_until(
        ask("generate_until", ("aA", {"max_gen_toks": 8}), ("aA", {"max_gen_toks": 8, "temperature": 5.0}))
    )
    assert mixed == [cold[0], hot]


# ----------------------------------------------------------------------------------- command, errors


def test_command(letters, folder, tmp_path, capsys):
    words = ["--include", folder, "--tasks", "pairs", "--limit", "2", "--args", "draws=4", "--out", tmp_path / "a.json"]
    assert main([str(word) for word in (letters, *words)]) == 0
    assert "pairs" in (said := capsys.readouterr().out)
    assert "acc_norm" in said
    written = json.loads((tmp_path / "a.json").read_text())
    assert written["n-samples"]["pairs"]["effective"] == 2
    assert written["config"]["model_args"] == {"path": str(letters), "draws": 4}
    assert f"{written['results']['pairs']['acc,none']:.4f}" in said


def test_parts_of_ones_own(letters, folder, tmp_path, monkeypatch):
    """Known before the model is loaded."""
    monkeypatch.syspath_prepend(tmp_path)  # so that the path is as it was afterwards
    text = 'from unmask import core, extend\nextend.schedule("of-the-test", core.Linear())\n'
    (tmp_path / "parts_of_the_test.py").write_text(text)
    words = ["--include", folder, "--tasks", "pairs", "--limit", "1", "--args", "draws=2"]
    assert main([str(word) for word in (letters, *words, "--use", tmp_path / "parts_of_the_test.py")]) == 0
    assert SCHEDULES.pop("of-the-test")


def test_mistakes(letters, pictures, molecules, folder, tmp_path, capsys):
    for run in (pictures, molecules):
        with pytest.raises(ValueError, match="the harness needs a model of running text"):
            HarnessModel(run)
    with pytest.raises(ValueError, match="batch_size is not a positive number: got auto"):
        HarnessModel(letters, batch_size="auto")
    assert main([str(tmp_path), "--include", str(folder), "--tasks", "pairs"]) == 2
    assert "is not a run" in capsys.readouterr().err
    assert main([str(letters), "--include", str(folder), "--tasks", "pears"]) == 2
    assert capsys.readouterr().err.startswith("unknown task: got pears")
    assert main([str(letters), "--include", str(folder), "--tasks", "pairs", "--use", "none.py"]) == 2
    assert capsys.readouterr().err.startswith("there is no such file: got none.py")


def test_without_the_extra(monkeypatch):
    for name in ("lm_eval", "lm_eval.api.model"):
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.delitem(sys.modules, "unmask.harness")
    with pytest.raises(ValueError, match=r'needs the package lm_eval: .*; pip install "unmask\[harness\]"') as found:
        importlib.import_module("unmask.harness")
    assert "\n" not in str(found.value)


def test_nothing_else_needs_the_extra():
    source = Path(unmask.__file__).parent
    assert [path.name for path in source.rglob("*.py") if "lm_eval" in path.read_text()] == ["harness.py"]
