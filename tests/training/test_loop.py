"""What the trainer does around a step: it clips, averages, validates, hides labels, and knows its best checkpoint."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

import unmask
from unmask.data import Plan, prepare
from unmask.networks import Conditioning, TransformerConfig
from unmask.run import Run, RunConfig, build_trainer, train
from unmask.training import Average, GenMD4Config, MD4Config, OptimizerConfig, RateConfig, TrainingConfig, checkpoint

CPU = torch.device("cpu")
SEEING = TransformerConfig(8, layers=1, heads=2, width=16, conditioning=Conditioning(time=True))
SMALL = {"batch_size": 8, "validation_sequences": 8, "preview": 1, "preview_steps": 4}


def config(data, **training):
    """GenMD4, which has parameters of its own besides the network's."""
    options = SMALL | {"rate": RateConfig(warmup=0, cooldown="none")} | training
    return RunConfig(data, SEEING, GenMD4Config(), TrainingConfig(**options))


def weights_of(trainer):
    return {name: p.detach().clone() for name, p in trainer.method.named_parameters()}


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


# -------------------------------------------------------------------------------------------- clipping


def first_step(data, folder, **training):
    """The gradients that the optimisers get, the norm that is reported, and what they remember."""
    trainer = build_trainer(config(data, optimizer=OptimizerConfig("muon"), **training), folder, CPU)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():  # a new network has no gradient but that of its output
        for parameter in trainer.method.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape, generator=generator))
    norm = trainer._report(trainer.launch()).gradient
    found = {name: p.grad for name, p in trainer.method.named_parameters()}
    return found, norm, trainer.optimizer.tensors(trainer.method)


@pytest.fixture(scope="module")
def free(text, tmp_path_factory):
    """Without a clip."""
    return first_step(text, tmp_path_factory.mktemp("free"), clip=math.inf)


def test_the_norm_is_over_all_parameters(free):
    found, norm, _ = free
    parts = {name: g.double().square().sum().item() for name, g in found.items()}
    assert norm == pytest.approx(sum(parts.values()) ** 0.5, rel=1e-5)
    for name in ("network.output.weight", "network.blocks.0.attention.qkv.weight", "weights.rho"):
        assert parts[name] > 1e-4 * norm**2  # AdamW's, Muon's and the method's own: none could be left out


@pytest.mark.parametrize("micro_batch", [None, 2])
@pytest.mark.parametrize(("times", "factor"), [(1 / 3, 1 / 3), (3, 1)], ids=["long", "short"])
def test_a_long_gradient_is_cut_to_the_clip_and_a_short_one_is_left(text, tmp_path, free, times, factor, micro_batch):
    """All parameters by one factor, whoever updates them, once for the whole batch and before their optimiser looks."""
    whole, norm, _ = free
    found, reported, moments = first_step(text, tmp_path, clip=norm * times, micro_batch=micro_batch)
    assert reported == pytest.approx(norm, rel=1e-4)  # as it was before
    rounding = {"rtol": 1e-3, "atol": 1e-5 * norm}
    for name, gradient in found.items():
        torch.testing.assert_close(gradient, factor * whole[name], **rounding)
        adamw, muon = (moments.get(f"state.{name}.{what}") for what in ("exp_avg", "momentum_buffer"))
        taken = adamw / (1 - 0.9) if muon is None else muon / (1 - 0.95)
        torch.testing.assert_close(taken, gradient, **rounding)
    assert any("exp_avg" in name for name in moments)
    assert any("momentum_buffer" in name for name in moments)


# --------------------------------------------------------------------------------- averages, validation


def averaged(data, folder):
    """A trainer whose averaged weights lie far behind its plain ones, and one that has nothing but the averaged."""
    rates = OptimizerConfig(rate=0.03, schedule_rate=0.3)
    setup = config(data, average=0.9, optimizer=rates, preview=8, preview_steps=16)
    trainer, other = (build_trainer(setup, folder, CPU) for _ in range(2))
    for _ in range(5):
        trainer.launch()
    return trainer, other


def given(trainer, weights):
    """With these weights, plain and averaged."""
    trainer.method.load_state_dict(weights)
    trainer.average = Average(trainer.method)
    return trainer


def test_validation_and_previews_are_of_the_averaged_weights(text, tmp_path):
    """Of the network and of the exponents; and the plain ones are there again afterwards, to the last bit."""
    trainer, other = averaged(text, tmp_path)
    plain, average = weights_of(trainer), {name: w.clone() for name, w in trainer.average.weights.items()}
    assert (plain["weights.rho"] - average["weights.rho"]).abs().max() > 0.1
    found, shown = trainer.validate(), trainer.preview()
    assert same(weights_of(trainer), plain)
    assert same(trainer.average.weights, average)
    assert found == given(other, average).validate()
    assert torch.equal(shown, other.preview())
    for part in (plain, {"weights.rho": plain["weights.rho"]}):  # nor are only some of them the averaged ones
        assert abs(found.mean - given(other, average | part).validate().mean) > 1e-3
        assert not torch.equal(shown, other.preview())


def test_what_goes_wrong_in_validation_leaves_the_plain_weights(text, tmp_path):
    trainer, _ = averaged(text, tmp_path)
    plain = weights_of(trainer)
    with torch.no_grad():
        trainer.average.weights["network.output.weight"].fill_(torch.nan)
    with pytest.raises(ValueError, match="NaN"):
        trainer.validate()
    assert same(weights_of(trainer), plain)


def test_a_run_is_not_changed_by_being_looked_at(text, tmp_path):
    """Validated and previewed after every step or after the last one only: the same weights."""
    found = []
    for every in (1, 4):
        trainer = build_trainer(config(text, steps=4, validate_every=every, save_every=4), tmp_path / str(every), CPU)
        reports = list(trainer.steps())
        assert [r.validation is not None for r in reports] == [step % every == 0 for step in range(1, 5)]
        found.append(weights_of(trainer))
    assert same(*found)


# --------------------------------------------------------------------------------------------- the best


def restless(data):
    """A rate that grows until what was learned is lost; one checkpoint is kept besides the best."""
    options = {"steps": 6, "validate_every": 1, "save_every": 4, "keep": 1, "average": 0.5, "preview": 0}
    rates = {"optimizer": OptimizerConfig(rate=0.2), "rate": RateConfig(warmup=12, cooldown="none")}
    return replace(config(data, **options, **rates), method=MD4Config())


def held_out(folder):
    return [line["validation"]["mean"] for line in Run.open(folder).metrics()]


def test_the_best_checkpoint_is_that_of_the_lowest_bound(text, tmp_path):
    """Neither the first nor the last, nor one that was to be saved anyway; found again with the weights of its step."""
    setup = restless(text)
    list(train(setup, tmp_path / "run", CPU))
    bounds = held_out(tmp_path / "run")
    best = 1 + int(np.argmin(bounds))
    assert best == 2
    assert bounds[2] > bounds[3] > bounds[1]  # better than the one before is not the best
    run = Run.open(tmp_path / "run")
    assert run.chosen(best=True).name == f"step-{best:08d}"
    assert run.chosen().name == "step-00000006"
    assert checkpoint.steps_in(run.checkpoints) == [best, 6]
    state = json.loads((run.checkpoints / "step-00000006/state.json").read_text())
    assert state["numbers"]["best"] == [bounds[best - 1], best]
    trainer = build_trainer(setup, tmp_path / "again", CPU)
    for _ in range(best):
        trainer.launch()
    model = unmask.load(tmp_path / "run", best=True, device=CPU)
    loaded = {name: p.detach() for name, p in model.method.named_parameters()}
    assert same(loaded, trainer.average.weights)


def test_the_best_is_remembered_by_who_goes_on(text, tmp_path):
    """Stopped when the best is behind: what is validated afterwards is compared with it, not with nothing."""
    reports = train(restless(text), tmp_path / "run", CPU)
    for _ in range(3):
        next(reports)
    reports.close()
    list(train(restless(text), tmp_path / "run", CPU))
    assert int(np.argmin(held_out(tmp_path / "run"))) == 1
    assert Run.open(tmp_path / "run").chosen(best=True).name == "step-00000002"


def test_of_equal_bounds_the_first_is_the_best(text, tmp_path):
    """A rate below what float32 can add changes nothing: all bounds are the same number."""
    rates = OptimizerConfig(rate=1e-30, schedule_rate=1e-30)
    setup = config(text, steps=6, validate_every=2, save_every=2, keep=1, preview=0, optimizer=rates)
    list(train(setup, tmp_path / "run", CPU))
    bounds = [line["validation"]["mean"] for line in Run.open(tmp_path / "run").metrics() if "validation" in line]
    assert len(bounds) == 3
    assert len(set(bounds)) == 1
    assert Run.open(tmp_path / "run").chosen(best=True).name == "step-00000002"


# ----------------------------------------------------------------------------------------------- labels


CLASSES, ROWS = 3, 2000


@pytest.fixture(scope="module")
def labelled(tmp_path_factory):
    """Prepared pictures of two pixels with classes in turn."""
    folder = tmp_path_factory.mktemp("labelled")
    images = np.random.default_rng(0).integers(0, 256, (60, 2, 1, 1), dtype=np.uint8)
    labels = np.arange(60, dtype=np.uint8) % CLASSES
    names = {"train_images": images, "train_labels": labels, "test_images": images[:9], "test_labels": labels[:9]}
    np.savez(folder / "a.npz", **names)
    prepare(Plan(str(folder / "a.npz")), folder / "data")
    return str(folder / "data")


def by_class(data, folder, share=0.3, rows=ROWS, **training):
    """A trainer, and the list of all labels that its network will be shown."""
    network = TransformerConfig(256, layers=1, heads=1, width=8, conditioning=Conditioning(classes=CLASSES))
    options = SMALL | {"batch_size": rows, "label_dropout": share, "validation_sequences": 9} | training
    trainer = build_trainer(RunConfig(data, network, training=TrainingConfig(**options)), folder, CPU)
    seen = []
    trainer.method.network.condition.label.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].clone()))
    return trainer, seen


def shown(data, folder, steps, **options):
    """The labels that the network is shown in these steps [steps, rows]."""
    trainer, seen = by_class(data, folder, **options)
    found = []
    for step in steps:
        trainer.done = step
        trainer.launch()
        found.append(torch.cat(seen))
        seen.clear()
    return torch.stack(found)


def true_labels(data, folder, steps):
    """Those of the batches' rows."""
    trainer, _ = by_class(data, folder)
    return torch.stack([trainer.feed.batch(step).label for step in steps])


def test_the_share_of_hidden_labels(labelled, tmp_path):
    """Of 10,000, and of each class, within 5.5 standard errors (false alarm 2e-7); the others are as they were."""
    labels, found = true_labels(labelled, tmp_path, range(5)), shown(labelled, tmp_path, range(5))
    hidden = found == CLASSES
    assert torch.equal(found[~hidden], labels[~hidden])
    for part in (hidden.flatten(), *(hidden[labels == label] for label in range(CLASSES))):
        assert abs(part.double().mean().item() - 0.3) < 5.5 * (0.3 * 0.7 / len(part)) ** 0.5
    for share, hides in ((0.0, False), (1.0, True)):
        assert ((shown(labelled, tmp_path, [0], share=share, rows=100) == CLASSES) == hides).all()


def test_hidden_labels_are_a_function_of_seed_sample_and_step(labelled, tmp_path):
    """Neither of the steps before nor of the micro-batches; two draws of 2,000 agree by chance with p < 1e-300."""
    found = shown(labelled, tmp_path, [3, 4]) == CLASSES
    assert torch.equal(shown(labelled, tmp_path, [4]) == CLASSES, found[1:])
    assert torch.equal(shown(labelled, tmp_path, [3], micro_batch=500) == CLASSES, found[:1])
    assert not torch.equal(found[0], found[1])
    assert not torch.equal(found[0][:500], found[0][500:1000])
    assert not torch.equal(shown(labelled, tmp_path, [3], seed=1) == CLASSES, found[:1])


def test_validation_hides_no_label(labelled, tmp_path):
    """Each held-out row comes with its class, however many are hidden in training; previews show
    every class.
    """
    trainer, seen = by_class(labelled, tmp_path, share=1.0, rows=4, preview=5)
    trainer.validate()
    rows = torch.arange(9) % CLASSES
    for labels in seen:  # several draws of each row side by side
        assert torch.equal(labels.view(9, -1), rows[:, None].expand(9, len(labels) // 9))
    assert seen
    free, _ = by_class(labelled, tmp_path, share=0.0, rows=4)
    assert trainer.validate() == free.validate()
    seen.clear()
    trainer.preview()
    assert set(torch.cat(seen).tolist()) == set(range(CLASSES))
