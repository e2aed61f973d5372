"""Every baseline trains, evaluates and samples through the commands; SEDD's samplers have the law of their scores."""

import json

import pytest
import torch

from tests.core.laws import chi_square, sequence_counts
from tests.sampling.oracle import SCALAR, TABLE, N, V, law_with_steps
from tests.small_models import trained
from unmask.baselines import BASELINES
from unmask.cli.main import main
from unmask.core import Streams, uniform_grid
from unmask.run import load
from unmask.sampling import Predictor, sample


def command(capsys, *words):
    code = main([str(word) for word in words])
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.mark.parametrize("method", BASELINES)
def test_each_trains_evaluates_and_samples(method, letters, tmp_path, capsys):
    data = letters.parent / "data"
    folder = trained(data, tmp_path / "run", method, steps=4)
    code, out, _ = command(capsys, "eval", folder, "--split", "valid", "--sequences", 8, "--json")
    assert code == 0
    assert 0 < json.loads(out)["bits_per_token"]["mean"] < 12
    code, out, _ = command(capsys, "sample", folder, "-n", 2, "--steps", 4, "--json")
    assert code == 0
    assert len(json.loads(out)["texts"]) == 2


def test_the_list(capsys):
    code, out, _ = command(capsys, "baselines", "--json")
    assert code == 0
    assert {row["name"] for row in json.loads(out)} == set(BASELINES)
    code, out, _ = command(capsys, "baselines")
    assert code == 0
    assert all(name in out for name in BASELINES)


def test_unknown_methods(letters, tmp_path, capsys):
    code, _, err = command(capsys, "train", "--data", letters.parent / "data", "--out", tmp_path / "a", "--method", "x")
    assert code == 2
    assert "unknown method: got x, allowed is md4, genmd4, ao-arm" in err


def shifted(amount):
    """The oracle's probabilities with scores that sum up to e^amount."""
    oracle = TABLE.denoiser(SCALAR)
    return lambda x, t, condition=None: oracle(x, t, condition).log_softmax(-1) + amount


@pytest.mark.parametrize("amount", [0.0, -0.4], ids=["sum to one", "do not"])
@pytest.mark.parametrize("name", ["analytic", "euler"])
def test_seds_samplers_have_the_law_of_their_scores(name, amount):
    """Against all paths, with the schedule's chance times Z; fails by chance with at most 1e-6."""
    grid, z = uniform_grid(3), torch.tensor(amount).exp()

    def chance(s, t):
        own = SCALAR.schedule.unmask_prob(s, t) if name == "analytic" else -(t - s) * SCALAR.schedule.loss_weight(t)
        return own * z

    exact = law_with_steps(SCALAR, TABLE.denoiser(SCALAR), grid, chance)
    predict = Predictor(shifted(amount), SCALAR.mask_id, scores=True)
    x = torch.full((40_000, N), SCALAR.mask_id)
    tokens = sample(predict, SCALAR, x, grid, Streams(0, len(x)), name).tokens
    assert chi_square(sequence_counts(tokens, V), exact) > 1e-6


def test_scores_have_no_temperature():
    predict = Predictor(shifted(0.0), SCALAR.mask_id, scores=True, temperature=0.5)
    x = torch.full((2, N), SCALAR.mask_id)
    with pytest.raises(ValueError, match="scores have no temperature"):
        sample(predict, SCALAR, x, uniform_grid(2), Streams(0, 2), "analytic")


def test_after_brief_training_scores_do_not_sum_up(letters, tmp_path):
    """Σ_v s_v should be α/(1−α), Z = 1: the unconstrained network is off, MD4's cannot be."""
    folder = trained(letters.parent / "data", tmp_path / "run", "sedd", steps=60, batch_size=16, average=0.5)
    model = load(folder)
    x = torch.full((4, 16), model.process.mask_id)
    with torch.no_grad():
        log_z = model.network(x, torch.full((4,), 0.9)).logsumexp(-1)
    off = (log_z.exp() - 1).abs().mean().item()
    assert 0.005 < off < 10, f"scores are off by {off:.1%} on average"
