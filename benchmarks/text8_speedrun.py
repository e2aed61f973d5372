"""How low a bound a recipe reaches on text8 in a given training time.

    python -m benchmarks.text8_speedrun NAME data/text8 runs/NAME --seconds 100 --about "what is tried" --layers 8 …

Like `benchmarks.timed`, with a recipe that all runs share except for what they try. Runs are compared on a part of the
validation split with the same masks for all, or measured on the whole test split (`--split test --sequences 0`).
"""

import argparse
from dataclasses import replace

from unmask.cli.train import apply
from unmask.data import Dataset
from unmask.networks import HourglassConfig, TransformerConfig
from unmask.run import RunConfig, with_method
from unmask.run.config import NetworkConfig
from unmask.training import MD4Config, OptimizerConfig, RateConfig, TrainingConfig

from .timed import NEVER, parser, record

NETWORKS: dict[str, NetworkConfig] = {
    "transformer": TransformerConfig(27, 8, 8, 512),
    "value-residuals": TransformerConfig(27, 8, 8, 512, value_residuals=True),
    "hourglass": HourglassConfig(27),
}


def recipe(network: str, method: str, data: str, seed: int, settings: list[str]) -> RunConfig:
    """Muon, a long linear cooldown, MD4 with plain weights; `settings` override the rest."""
    training = TrainingConfig(
        steps=NEVER,
        batch_size=512,
        seed=seed,
        optimizer=OptimizerConfig("muon", rate=2e-3, muon_rate=3e-3),
        rate=RateConfig(cooldown="linear", cooldown_share=0.6),
        average=0.998,
        save_every=NEVER,
        validate_every=NEVER,
        preview=0,
    )
    shape = replace(NETWORKS[network], vocab_size=Dataset(data).vocabulary.size)
    config = with_method(RunConfig(data, shape, MD4Config(weighting="ce"), training), method)
    return apply(config, tuple(settings))


def asked(words: list[str] | None) -> tuple[RunConfig, argparse.Namespace]:
    """The configuration and options from a command line (None: that of this process)."""
    wanted = parser(__doc__, "valid", 2000)
    wanted.add_argument("--network", choices=NETWORKS, default="transformer")
    options, settings = wanted.parse_known_args(words)
    return recipe(options.network, options.method, options.data, options.seed, settings), options


def main(words: list[str] | None = None) -> None:
    """Train, measure and record."""
    config, options = asked(words)
    name = options.name if "/" in options.name else f"speedrun/{options.name}"
    record(f"{name}-{options.seed}", config, options)


if __name__ == "__main__":
    main()
