"""The studies of grids and samplers, on models that take seconds to train."""

import json
import sys

import numpy as np
import pytest
import torch

import unmask
from benchmarks import digit_classifier, grids, plots, record, sampler_frontier, tables
from unmask.core import Linear, Process, Streams
from unmask.core.exact import MarkovLaw
from unmask.evaluation import in_groups
from unmask.run import Sampling
from unmask.sampling import Predictor


@pytest.fixture
def results(tmp_path, monkeypatch):
    """A folder of results of its own."""
    monkeypatch.setattr(record, "RESULTS", tmp_path)
    return tmp_path


def command(monkeypatch, main, *words):
    monkeypatch.setattr(sys, "argv", ["benchmark", *map(str, words)])
    main()


def data_of(run):
    return run.parent / "data"


# ------------------------------------------------------------------------------------------------- ways


@pytest.mark.parametrize("way", grids.WAYS, ids=lambda way: way.name)
def test_each_way_reveals_what_its_schedule_says(way, letters):
    """N(α_s − α_t) per row and step: binomial, so within six standard deviations (four steps: 1e-8)."""
    model = way.model(unmask.load(letters))
    rows, length, steps = 200, 16, 4
    frames = model.frames(model.blank(rows, 0), Sampling(steps=steps, grid=way.grid, batch_size=rows))
    found = [int(frame.changed.sum()) for frame in frames][1:]
    t = np.arange(steps, -1, -1) / steps
    alpha = 1 - t if way.name == "linear, uniform grid" else 1 - np.sin(np.pi / 2 * t)
    share = np.diff(alpha)
    assert sum(found) == rows * length
    sd = np.sqrt(rows * length * share * (1 - share))
    assert (abs(found - rows * length * share) < 6 * sd).all()


def test_two_of_the_ways_are_the_same_law(letters):
    """The same α at every step, so the same samples from the same seed; the first way has others."""
    model = unmask.load(letters)
    drawn = [way.model(model).fill(model.blank(8, 0), Sampling(steps=6, grid=way.grid)).tokens for way in grids.WAYS]
    assert torch.equal(drawn[1], drawn[2])
    assert not torch.equal(drawn[0], drawn[1])


# ------------------------------------------------------------------------------------------------- text


def test_one_by_one_the_exact_denoiser_gives_the_exact_law():
    law, process = MarkovLaw.random(vocab_size=3, seed=0), Process(Linear(), 3)
    x = law.draw(5, Streams(1, 6))
    predict = Predictor(law.denoiser(process), process.mask_id)
    order = torch.rand(x.shape, generator=torch.Generator().manual_seed(0)).argsort(1) + 1
    torch.testing.assert_close(in_groups(predict, process, x, order), -law.log_prob(x))
    given = order.clone()
    given[:, 0] = 0  # the first token given: the rest follows from it
    torch.testing.assert_close(in_groups(predict, process, x, given), -law.transition.log()[x[:, :-1], x[:, 1:]].sum(1))


def test_tokens_of_one_rank_do_not_see_each_other():
    """Two tokens drawn together: the mean difference over such draws is KL(p(a)p(b) | p(a, b)), their conflict."""
    law, process = MarkovLaw(torch.tensor([0.5, 0.5]), torch.tensor([[0.9, 0.1], [0.1, 0.9]])), Process(Linear(), 2)
    x = torch.tensor([[0, 0], [0, 1], [1, 0], [1, 1]])
    predict = Predictor(law.denoiser(process), process.mask_id)
    together = in_groups(predict, process, x, torch.ones_like(x))
    torch.testing.assert_close(together, torch.full((4,), 2 * np.log(2), dtype=torch.float64))
    apart = in_groups(predict, process, x, torch.tensor([[1, 2]] * 4))
    expected = 0.5 * np.log(0.25 / 0.45) + 0.5 * np.log(0.25 / 0.05)
    assert float((apart - together).mean()) == pytest.approx(expected, rel=1e-5)


def test_infilling(letters, results, monkeypatch):
    words = ("infill", letters, data_of(letters), "--steps", 1, 16, "--size", 16, "--budget", 0)
    command(monkeypatch, grids.main, *words)
    found = json.loads((results / "grids_infill.json").read_text())
    rows = {(r["pattern"], r["way"], r["steps"]): r for r in found["rows"]}
    assert len(rows) == 2 * (3 * 2 + 1)
    for pattern in grids.PATTERNS:
        alone = rows[pattern, "one at a time", None]
        assert alone["conflict"]["mean"] == pytest.approx(0, abs=1e-6)  # float32 networks, other batches
        assert alone["calls"] == 8  # half of sixteen
        for way in grids.WAYS:
            hasty, slow = (rows[pattern, way.name, steps]["conflict"]["mean"] for steps in (1, 16))
            assert hasty > slow
    gap = rows["one gap", "linear, uniform grid", 1]["conflict"]
    assert gap["mean"] > 6 * gap["error"]  # pairs of letters that must agree were drawn without seeing each other
    assert (
        rows["one gap", "one at a time", None]["ngram"]["mean"]
        < rows["one gap", "linear, cosine grid", 1]["ngram"]["mean"]
    )
    table = tables.samples.infilling(found)
    assert table.count("\n| scattered | ") == 8
    assert "| one gap | the text itself |" in table
    assert "one at a time" in plots.write("infilling", results).read_text()


# --------------------------------------------------------------------------------------------- pictures


def test_the_classifier_learns_and_its_features_are_scaled():
    rng = np.random.default_rng(0)
    labels = np.arange(600) % 2
    images = (rng.integers(0, 64, (600, 8, 8)) + 190 * (np.arange(8) < 4)[None, None] * labels[:, None, None]).astype(
        np.uint8
    )
    reader = digit_classifier.trained(images, labels, torch.device("cpu"), epochs=5).scaled_to(images)
    read = reader(images)
    assert (read.classes == labels).mean() > 0.99
    assert read.features.var(0).mean() == pytest.approx(1)
    assert abs(read.features.mean(0)).max() < 1e-9


def test_data_are_near_data_and_noise_is_not():
    rng = np.random.default_rng(0)
    real, same, other = rng.normal(size=(2000, 4)), rng.normal(size=(400, 4)), rng.normal(1, 1, size=(400, 4))
    near, far = (grids.judged(digit_classifier.Read(x, np.zeros(400, int)), real, None) for x in (same, other))
    assert near["frechet"]["mean"] < 0.1
    assert abs(near["kernel"]["mean"]) < 6 * near["kernel"]["error"]
    assert abs(far["frechet"]["mean"] - 4) < 6 * far["frechet"]["error"]  # |μ|² = 4
    assert far["kernel"]["mean"] > 6 * far["kernel"]["error"]
    asked = grids.judged(digit_classifier.Read(same, np.arange(400) % 2), real, np.zeros(400, int))["as_asked"]
    assert asked == {"mean": 0.5, "error": 0.025}


def test_kinds_far_apart_are_no_distance():
    """Ten kinds, drawn at random, against the same ten: the kernel distance is unbiased however small its groups."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(10, 4))
    kinds = rng.integers(0, 10, 400)
    real, same = (centres[k] + 0.1 * rng.normal(size=(len(k), 4)) for k in (rng.integers(0, 10, 2000), kinds))
    found = grids.judged(digit_classifier.Read(same, kinds), real, kinds)
    assert abs(found["kernel"]["mean"]) < 6 * found["kernel"]["error"]
    assert found["frechet"]["mean"] < 0.1
    assert found["as_asked"]["mean"] == 1
    assert 0 < found["as_asked"]["error"] < 1 / 400


def test_digits(pictures, results, monkeypatch, tmp_path):
    sheet = tmp_path / "sheet.png"
    words = ("digits", pictures, data_of(pictures), "--steps", 2, 4, "--size", 21, "--budget", 0, "--sheet", sheet)
    command(monkeypatch, grids.main, *words)
    found = json.loads((results / "grids_digits.json").read_text())
    assert found["samples"] == 21
    assert [(r["steps"], r["conditional"]) for r in found["rows"]] == [(2, False), (4, False)] * 3 + [
        (2, True),
        (4, True),
    ] * 3
    assert all(("as_asked" in r) is r["conditional"] and r["frechet"]["error"] > 0 for r in found["rows"])
    assert sheet.read_bytes()[:4] == b"\x89PNG"
    table = tables.samples.grids(found)
    assert "| | T = 2 | T = 4 |" in table
    assert table.count("linear, cosine grid") == 5  # two distances with and without class, and the classes
    assert "FID" not in table
    assert plots.write("grids", results).read_bytes() == plots.write("grids", results).read_bytes()


def test_a_class_for_each_row(pictures):
    model = unmask.load(pictures)
    labels = torch.tensor([2, 0, 1])
    together = model.fill(model.blank(3, 0), Sampling(steps=3), labels=labels).tokens
    for row, label in enumerate(labels.tolist()):
        alone = model.fill(model.blank(1, 0), Sampling(steps=3, label=label), torch.tensor([row]))
        assert torch.equal(alone.tokens[0], together[row])
    for wrong in ([0, 1, 3], [0, 1]):
        with pytest.raises(ValueError, match="class"):
            model.fill(model.blank(3, 0), Sampling(steps=3), labels=torch.tensor(wrong))


# --------------------------------------------------------------------------------------------- samplers


def test_every_sampler_has_its_points(letters, results, monkeypatch):
    monkeypatch.setattr(sampler_frontier, "HASTY", ("first-hitting:tokens_per_call=4",))
    words = (letters, data_of(letters), "--count", 4, "--steps", 2, "--many", 4)
    command(monkeypatch, sampler_frontier.main, *words)
    found = json.loads((results / "sampler_frontier.json").read_text())
    points = {(p["sampler"], p["steps"], *p["options"].values()): p for p in found["points"]}
    assert len(points) == len(found["points"])
    assert {name for name, *_ in points} >= {"real data", "ancestral", "joint", "speculative", "remask-loop"}
    assert points["first-hitting", None]["calls"] == 16
    assert points["first-hitting", None, 4]["calls"] == 4
    assert {steps for name, steps, *_ in points if name == "joint"} == {2, 4}
    assert points["analytic", 2]["values"] == points["ancestral", 2]["values"]  # the same draws
    table = tables.samples.sampler_frontier(found)
    assert "| first-hitting, tokens_per_call 4 |  | 4.0 |" in table
    rows = [[cell.strip() for cell in line.split("|")] for line in table.splitlines() if line.startswith("| ")][1:]
    assert {(name, steps) for _, names, steps, *_ in rows for name in names.split(", ")} >= {
        (name, str(steps or "")) for name, steps, *_ in points
    }
    assert any("ancestral, analytic, two-step" in names for _, names, *_ in rows)  # the same draws share a row
    picture = plots.write("sampler_frontier", results).read_text()
    assert "joint" in picture
    assert sorted({name for kind in plots.KINDS.values() for name in kind}) == sorted(
        {n for n, *_ in points} - {"real data"}
    )


def test_rounds_stop_within_the_budget():
    assert list(record.rounds(0)) == [0]
    done = record.rounds(0.05)
    assert sum(1 for _ in zip(range(10**6), done, strict=False)) > 3


def test_bad_input_is_one_line(monkeypatch, capsys, letters, pictures):
    for words, said in (
        (("digits", letters, data_of(letters)), "images"),
        (("infill", pictures, data_of(pictures)), "text"),
        (("infill", letters, data_of(pictures)), "vocabulary"),
        (("digits", pictures, data_of(pictures), "--size", 3), "--size"),
    ):
        with pytest.raises(SystemExit) as end:
            record.plainly(lambda words=words: command(monkeypatch, grids.main, *words))
        err = capsys.readouterr().err
        assert end.value.code == 2
        assert said in err
        assert err.count("\n") == 1
