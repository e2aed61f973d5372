"""Presets: named settings of how to prepare the data and how to train on it.

The paper's settings follow App. J as printed: continuous-time loss with antithetic times and a schedule shifted by
1e-4, AdamW, cosine cooldown, moving average 0.9999. Where the paper is silent, the condition of the text networks is
128 wide, as in the code base whose layers, heads and widths the paper adopts.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

from .baselines import BASELINES
from .data import Plan
from .mistakes import fail, nearest
from .networks import Conditioning, TransformerConfig, UNetConfig, UViTConfig
from .run import SIZES, NetworkConfig, RunConfig, quick_training, with_method
from .training import MD4Config, OptimizerConfig, RateConfig, TrainingConfig

GPT2_VOCABULARY = 50_257
MOSES_ALPHABET = "#()-123456=BCFHNOS[]clnors"
_PAPER_MD4 = MD4Config(shift=1e-4, masks="independent")


@dataclass(frozen=True)
class Preset:
    """A named setting: its data and its run."""

    summary: str
    plan: Plan
    shape: tuple[int, ...]
    """Shape of a row."""
    config: RunConfig
    """The run, with the default folder of its data."""


def _paper_text(
    source: str, vocabulary: str | None, size: str, length: int, dropout: float, summary: str, held_out: float = 0.0
) -> Preset:
    layers, heads, width = SIZES[size]
    symbols = 27 if vocabulary is None else GPT2_VOCABULARY
    network = TransformerConfig(
        symbols, layers, heads, width, dropout=dropout, conditioning=Conditioning(time=True, condition_width=128)
    )
    training = TrainingConfig(
        steps=1_000_000,
        batch_size=512,
        optimizer=OptimizerConfig(rate=3e-4, weight_decay=0.03),
        rate=RateConfig(warmup=2000),
        save_every=5000,
        validate_every=5000,
        validation_sequences=512,
        preview_steps=256,
    )
    plan = Plan(source, vocabulary=vocabulary, length=length, valid=held_out, test=0.0)
    return Preset(summary, plan, (length,), RunConfig(f"data/{source}", network, _PAPER_MD4, training))


def _paper_image(plan: Plan, side: int, network: NetworkConfig, rate: float, batch: int, decay: float) -> Preset:
    training = TrainingConfig(
        steps=2_000_000,
        batch_size=batch,
        optimizer=OptimizerConfig(rate=rate, weight_decay=decay),
        rate=RateConfig(warmup=100),
        save_every=5000,
        validate_every=5000,
        validation_sequences=256,
        preview=16,
        preview_steps=256,
    )
    config = RunConfig(f"data/{plan.kind or plan.source}", network, _PAPER_MD4, training)
    return Preset("", plan, (side, side, 3), config)


def text8() -> Preset:
    """The paper's text8 model: 12 layers, 256 characters."""
    return _paper_text("text8", None, "85m", 256, 0.05, "text8, MD4, 12 × 768")


def openwebtext_small() -> Preset:
    """The paper's small OpenWebText model."""
    return _paper_text("openwebtext", "gpt2", "85m", 1024, 0.02, "OpenWebText, MD4, GPT-2 small", 0.02)


def openwebtext_medium() -> Preset:
    """The paper's medium OpenWebText model."""
    return _paper_text("openwebtext", "gpt2", "300m", 1024, 0.02, "OpenWebText, MD4, GPT-2 medium", 0.02)


def fineweb_edu_small() -> Preset:
    """The paper's small FineWeb-Edu model."""
    return _paper_text("fineweb-edu", "gpt2", "85m", 1024, 0.02, "FineWeb-Edu, MD4, GPT-2 small", 0.02)


def fineweb_edu_medium() -> Preset:
    """The paper's medium FineWeb-Edu model."""
    return _paper_text("fineweb-edu", "gpt2", "300m", 1024, 0.02, "FineWeb-Edu, MD4, GPT-2 medium", 0.02)


def fineweb_edu_large() -> Preset:
    """The paper's large FineWeb-Edu model."""
    return _paper_text("fineweb-edu", "gpt2", "700m", 1024, 0.02, "FineWeb-Edu, MD4, GPT-2 large", 0.02)


def cifar10() -> Preset:
    """The paper's CIFAR-10 model: 28 M parameters, no augmentation."""
    network = UNetConfig(conditioning=Conditioning(time=True))
    preset = _paper_image(Plan("cifar10", valid=0.0, test=0.0), 32, network, rate=4e-4, batch=256, decay=0.01)
    return replace(preset, summary="CIFAR-10 pixels, MD4, U-Net of 28 M")


def imagenet64() -> Preset:
    """The paper's ImageNet 64×64 model for likelihood: 198 M parameters."""
    plan = Plan("imagenet64", kind="imagenet64", valid=0.0, test=0.0)
    preset = _paper_image(plan, 64, UViTConfig(), rate=2e-4, batch=512, decay=0.03)
    return replace(preset, summary="ImageNet 64×64 pixels, MD4, likelihood, 198 M")


def imagenet64_samples() -> Preset:
    """The paper's lighter ImageNet 64×64 model for sampling images: 8 blocks, 20 layers, cosine schedule."""
    preset = imagenet64()
    config = replace(
        preset.config, network=UViTConfig(blocks=8, layers=20), method=replace(_PAPER_MD4, schedule="cosine")
    )
    return replace(preset, summary="ImageNet 64×64 pixels, MD4, cosine schedule, for samples", config=config)


def imagenet64_classes() -> Preset:
    """The same with classes, dropped for a tenth of the samples so that guidance is possible."""
    preset = imagenet64_samples()
    network = replace(preset.config.network, conditioning=Conditioning(time=True, classes=1000))
    summary = "ImageNet 64×64 pixels, MD4, cosine schedule, class-conditional"
    return replace(preset, summary=summary, config=replace(preset.config, network=network))


def _genmd4(base: Callable[[], Preset]) -> Preset:
    preset = base()
    summary = preset.summary.replace("MD4", "GenMD4")
    return replace(preset, summary=summary, config=with_method(preset.config, "genmd4"))


def text8_genmd4() -> Preset:
    """The paper's text8 model with a schedule learned for every character."""
    return _genmd4(text8)


def openwebtext_small_genmd4() -> Preset:
    """The paper's small OpenWebText model with a schedule learned for every token."""
    return _genmd4(openwebtext_small)


def _laptop(
    plan: Plan, shape: tuple[int, ...], network: NetworkConfig, summary: str, steps: int, batch: int, preview: int
) -> Preset:
    how = quick_training(
        steps=steps, batch_size=batch, average=0.999, save_every=500, validate_every=500, preview=preview
    )
    return Preset(summary, plan, shape, RunConfig(f"data/{plan.source}", network, training=how))


def characters() -> Preset:
    """Shakespeare by characters (the text comes with the package), for a laptop."""
    network = TransformerConfig(65, 4, 4, 144)
    plan = Plan("shakespeare", length=128)
    return _laptop(plan, (128,), network, "Shakespeare by characters, 1 M, for a laptop", 5000, 32, 2)


def mnist() -> Preset:
    """Digits with classes, for a laptop with patience or any GPU."""
    network = UNetConfig(256, 1, 3, 64, groups=16, conditioning=Conditioning(classes=10))
    plan = Plan("mnist", valid=0.0, test=0.0)
    return _laptop(plan, (28, 28), network, "MNIST digits with classes, 1 M", 5000, 64, 16)


def molecules() -> Preset:
    """Drug-like molecules (MOSES) as SMILES, for a laptop with patience or any GPU."""
    plan = Plan("moses", vocabulary=f"alphabet:{MOSES_ALPHABET}", length=57)
    network = TransformerConfig(len(MOSES_ALPHABET) + 1, 6, 4, 208, positions=57)
    return _laptop(plan, (57,), network, "MOSES molecules as SMILES, 3 M", 20_000, 128, 4)


def text8_10min() -> Preset:
    """The lowest bits per character on text8 after ten minutes on one H200 (docs/results.md), with subwords.

    256 subwords hold five times as much text as 256 characters, and most words are drawn at once.
    """
    network = TransformerConfig(16_384, 10, 10, 640, mlp="relu2", tied=True, dropout=0.05, value_residuals=True)
    method = MD4Config(k_law="bell", k_bell=(1.5, 1.5), weighting="ce")
    training = _ten_minutes(steps=9_260, muon_rate=6e-3, weight_decay=0.2)
    plan = Plan("text8", vocabulary="bpe:16384", length=256, valid=0.0, test=0.0)
    summary = "text8 by subwords, ten minutes on one H200, 10 × 640"
    config = RunConfig("data/text8-subwords", network, method, training)
    return Preset(summary, plan, (256,), config)


def text8_characters_10min() -> Preset:
    """The lowest bits per character with a window of 256 characters, in the same ten minutes.

    Exponent 30 makes the spaces (token 0) appear first: words have their lengths before their letters.
    """
    network = TransformerConfig(27, 8, 10, 640, mlp="relu2")
    method = MD4Config(exponents=((0, 30.0),), k_law="bell", k_bell=(1.5, 1.5), weighting="ce")
    plan = Plan("text8", length=256, valid=0.0, test=0.0)
    summary = "text8 by characters, spaces first, ten minutes on one H200, 8 × 640"
    config = RunConfig("data/text8", network, method, _ten_minutes(steps=14_520, muon_rate=1e-2))
    return Preset(summary, plan, (256,), config)


def _ten_minutes(steps: int, muon_rate: float, weight_decay: float = OptimizerConfig.weight_decay) -> TrainingConfig:
    how = quick_training(
        steps=steps,
        batch_size=256,
        average=0.998,
        save_every=2000,
        validate_every=2000,
        validation_sequences=512,
        preview=2,
    )
    return replace(how, optimizer=replace(how.optimizer, muon_rate=muon_rate, weight_decay=weight_decay))


def _baseline(method: str) -> Preset:
    """The paper's text8 model with another method: the same data, network and budget."""
    preset = text8()
    summary = preset.summary.replace("MD4", f"{method} (unmask baselines)")
    return replace(preset, summary=summary, config=with_method(preset.config, method))


PRESETS: dict[str, Callable[[], Preset]] = {
    **{
        make.__name__.replace("_", "-"): make
        for make in (
            *(text8, text8_genmd4, text8_10min, text8_characters_10min),
            *(openwebtext_small, openwebtext_small_genmd4, openwebtext_medium),
            *(fineweb_edu_small, fineweb_edu_medium, fineweb_edu_large),
            *(cifar10, imagenet64, imagenet64_samples, imagenet64_classes),
            *(characters, mnist, molecules),
        )
    },
    **{f"text8-{method}": partial(_baseline, method) for method in BASELINES},
}


def find(name: str) -> Preset:
    """A preset by its name."""
    if name not in PRESETS:
        do = nearest(name, PRESETS, "unmask train --help lists them")
        fail("unknown preset", got=name, allowed=", ".join(PRESETS), do=do)
    return PRESETS[name]()
