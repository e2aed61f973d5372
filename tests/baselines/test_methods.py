"""Every baseline trains, evaluates and samples through the commands; SEDD's samplers have the law of their scores."""

import json

import pytest
import torch

from tests.commands import command
from tests.core.laws import chi_square, sequence_counts
from tests.sampling.oracle import SCALAR, TABLE, N, V, law_with_steps, outcomes
from tests.small_models import trained
from unmask.baselines import BASELINES, AOARMConfig, SUNDAEConfig
from unmask.core import Streams, cosine_grid, uniform_grid
from unmask.networks import KVCache, TransformerConfig
from unmask.run import Run, load
from unmask.run.evaluate import Evaluation, evaluate
from unmask.sampling import CAUSAL, SCORES, Guidance, Predictor, sample, trajectory
from unmask.training import OptimizerConfig


@pytest.mark.parametrize("method", BASELINES)
def test_each_trains_evaluates_and_samples(method, letters, tmp_path, capsys):
    data = letters.parent / "data"
    folder = trained(data, tmp_path / "run", method, steps=4)
    code, out, _ = command(capsys, "eval", folder, "--split", "valid", "--sequences", 8, "--json")
    assert code == 0
    assert 0 < json.loads(out)["bits_per_token"]["mean"] < 12
    steps = () if method == "ar" else ("--steps", 4)  # it has no grid
    code, out, _ = command(capsys, "sample", folder, "-n", 2, *steps, "--json")
    assert code == 0
    assert len(json.loads(out)["texts"]) == 2


@pytest.mark.parametrize("method", ["ar", "block"])
@pytest.mark.parametrize("asked", [("--steps", 3), ("--estimator", "paper"), ("--estimator", "controlled")])
def test_a_bound_of_its_own_is_the_only_one(method, asked, letters, tmp_path, capsys):
    """What cannot be honoured is refused, before anything is computed."""
    folder = trained(letters.parent / "data", tmp_path / "run", method, steps=1)
    code, _, err = command(capsys, "eval", folder, "--split", "valid", *asked)
    assert code == 2
    assert "this method has a bound of its own: got the " in err
    assert err.count("\n") == 1
    assert not (folder / "evals").exists()


def test_uniform_noise_has_a_bound_for_every_grid(letters, tmp_path):
    """By default that of its training; another grid is another bound, and other estimators there are none."""
    model = load(trained(letters.parent / "data", tmp_path / "run", "multinomial", steps=1))
    own, same, few = (model.estimator(steps=steps).grid for steps in (None, 1000, cosine_grid(4)))
    assert torch.equal(own, same)
    assert torch.equal(few, cosine_grid(4))
    run, how = Run.open(tmp_path / "run"), {"split": "valid", "sequences": 4, "draws": 2}
    found = [evaluate(run, Evaluation(steps=steps, **how)).scores.nats for steps in (None, 1000, 2)]
    assert (found[0] == found[1]).all()
    assert (found[0] != found[2]).all()
    for name in ("paper", "controlled"):
        with pytest.raises(ValueError, match=f"got the estimator {name}"):
            evaluate(run, Evaluation(estimator=name, **how))


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
    assert "unknown method: got x, allowed: md4, genmd4, ar, ao-arm" in err


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
    predict = Predictor(shifted(amount), SCALAR.mask_id, family=SCORES)
    x = torch.full((40_000, N), SCALAR.mask_id)
    tokens = sample(predict, SCALAR, x, grid, Streams(0, len(x)), name).tokens
    assert chi_square(sequence_counts(tokens, V), exact) > 1e-6


@pytest.mark.parametrize("strength", [1.0, 2.0])
def test_guidance_leaves_scores_their_speed(strength):
    """Z is that with the condition: 1 is the condition as trained, and more of it does not reveal any faster.

    Shares of 40,000 samples, within 6 errors: false alarm below 1e-7 in all.
    """
    x, grid = torch.full((40_000, N), SCALAR.mask_id), uniform_grid(4)
    away = Guidance(strength, lambda x, condition, samples: (x.flip(1), condition))  # noqa: ARG005

    def masked(guidance):
        predict = Predictor(shifted(-0.9), SCALAR.mask_id, family=SCORES, guidance=guidance)
        return [
            (f.tokens == SCALAR.mask_id).double().mean().item()
            for f in trajectory(predict, SCALAR, x, grid, Streams(0, len(x)), "analytic")
        ]

    for with_it, without in zip(masked(away), masked(None), strict=True):
        assert abs(with_it - without) < 6 * (2 * 0.25 / len(x) / N) ** 0.5


def test_scores_have_no_temperature():
    predict = Predictor(shifted(0.0), SCALAR.mask_id, family=SCORES, temperature=0.5)
    x = torch.full((2, N), SCALAR.mask_id)
    with pytest.raises(ValueError, match="are not defined for scores"):
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


# ---------------------------------------------------------------------------------------- autoregressive


@pytest.fixture(scope="module")
def reader(letters, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reader")
    rate = OptimizerConfig(rate=1e-2)
    how = {"steps": 200, "batch_size": 32, "average": 0.9, "optimizer": rate, "preview": 1}
    return trained(letters.parent / "data", folder / "run", "ar", width=32, **how)


def test_a_causal_network_does_not_look_ahead(reader):
    """A change at place n changes predictions after n only."""
    network = load(reader).network
    x = torch.randint(8, (1, 16), generator=torch.Generator().manual_seed(0))
    other = x.clone()
    other[0, 5] = (x[0, 5] + 1) % 8
    with torch.no_grad():
        same = (network(x) == network(other)).all(-1)[0]
    assert same[:6].all()
    assert not same[6:].any()


def test_its_likelihood_is_exact_and_learned(reader, capsys):
    """Letters in pairs: 1 of 4, then certain, so one bit per token and nothing to estimate."""
    code, out, _ = command(capsys, "eval", reader, "--split", "valid", "--json")
    found = json.loads(out)
    assert code == 0
    assert found["bits_per_token"]["monte_carlo"] == 0
    assert 0.9 < found["bits_per_token"]["mean"] < 1.6
    assert found["network_calls"] == 2 * found["sequences"]
    by_hand = load(reader)
    text = "aAbBcC"
    ids = torch.from_numpy(by_hand.vocabulary.encode(text).astype("int64"))[None]
    with torch.no_grad():
        log_p = by_hand.network(ids).double().log_softmax(-1).gather(-1, ids[..., None]).sum().item()
    assert by_hand.log_likelihood([text])[0] == (pytest.approx(log_p, rel=1e-5), 0)


def test_it_writes_from_left_to_right(reader, capsys):
    code, out, _ = command(capsys, "sample", reader, "-n", 8, "--json")
    found = json.loads(out)
    assert code == 0
    assert found["network_calls_per_sample"] == 16
    pairs = [(a, b) for text in found["texts"] for a, b in zip(text[::2], text[1::2], strict=True)]
    upper = sum(b == a.upper() != a or a == b.upper() != b for a, b in pairs)
    assert upper > len(pairs) / 2
    code, out, _ = command(capsys, "infill", reader, "aAbB[MASK:4]", "--json")
    assert code == 0
    assert json.loads(out)["texts"][0].startswith("aAbB")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("sample", "--sampler", "ancestral"), "allowed: left-to-right"),
        (("infill", "aA[MASK:2]bB"), "cannot fill this gap"),
    ],
)
def test_what_it_cannot_do(words, said, reader, capsys):
    code, _, err = command(capsys, words[0], reader, *words[1:])
    assert code == 2
    assert said in err


def test_pictures_need_a_transformer(pictures, tmp_path, capsys):
    words = ("train", "--data", pictures.parent / "data", "--out", tmp_path / "a", "--method", "ar")
    code, _, err = command(capsys, *words)
    assert code == 2
    assert "only a transformer can read in order" in err


def test_left_to_right_has_the_models_law():
    """Fails by chance with at most 1e-6."""
    predict = Predictor(TABLE.denoiser(SCALAR), SCALAR.mask_id)
    x = torch.full((40_000, N), SCALAR.mask_id)
    tokens = sample(predict, SCALAR, x, uniform_grid(2), Streams(0, len(x)), "left-to-right").tokens
    assert chi_square(sequence_counts(tokens, V), outcomes()[1]) > 1e-6


def test_reading_on_is_reading_everything(reader):
    """Keys and values that are kept give the features of a whole pass, whatever is read at once."""
    network = load(reader).network
    x = torch.randint(8, (3, 16), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        whole, caches, shown = network.features(x), [KVCache() for _ in network.blocks], network.shifted(x)
        parts = [network.read(shown[:, a:b], caches, a) for a, b in ((0, 5), (5, 6), (6, 7), (7, 16))]
    torch.testing.assert_close(torch.cat(parts, 1), whole, rtol=1e-4, atol=1e-5)


def test_what_was_read_changes_no_sample(reader):
    """With a cache and without one, also where prompts of one batch end at different places."""
    model = load(reader)
    network, process = model.network, model.process
    x = torch.full((4, 16), process.mask_id)
    x[1, :3], x[2, :9] = 1, 2
    found = []
    for cache in (True, False):
        predict = Predictor(network, process.mask_id, cache=cache, family=CAUSAL)
        found.append(sample(predict, process, x, uniform_grid(2), Streams(5, 4), "left-to-right").tokens)
    assert torch.equal(*found)
    assert (found[0][1, :3] == 1).all()


def test_each_place_is_read_once(reader, monkeypatch):
    """Sixteen places in sixteen passes over one place each, also where prompts differ in length."""
    model = load(reader)
    x = torch.full((3, 16), model.process.mask_id)
    x[1, :3] = 1
    read, real = [], model.network.read
    monkeypatch.setattr(model.network, "read", lambda shown, *a: read.append(shown.shape[1]) or real(shown, *a))
    predict = Predictor(model.network, model.process.mask_id, family=CAUSAL)
    found = sample(predict, model.process, x, uniform_grid(2), Streams(0, 3), "left-to-right")
    assert read == [1] * 16
    assert found.calls == (16 + 13 + 16) / 3


def test_unrolled_denoising_is_the_bound_and_a_second_pass():
    """Less the bound of the same draw, the loss is the cross-entropy of all tokens given the network's completion."""
    torch.manual_seed(0)
    network = TransformerConfig(5, 1, 2, 16).build()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    x_0 = torch.randint(5, (6, 8), generator=torch.Generator().manual_seed(0))
    method, shown = SUNDAEConfig().build(network), []
    method._features = lambda x, *a: shown.append(x) or network.features(x, *a)
    with torch.no_grad():
        total = method(x_0, Streams(0, 6))
        bound = AOARMConfig().build(network)(x_0, Streams(0, 6))
        masked, written = shown
        again = torch.nn.functional.cross_entropy(network(written).flatten(0, 1), x_0.flatten(), reduction="sum")
    torch.testing.assert_close((total - bound).float(), again, rtol=1e-4, atol=1e-3)
    visible = masked != 5
    assert (written[visible] == x_0[visible]).all()
    assert not (written == 5).any()
