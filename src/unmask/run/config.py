"""The complete configuration of a run, and sensible defaults for given data."""

from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, get_args

from ..baselines import (
    BASELINES,
    AOARMConfig,
    ARConfig,
    BlockConfig,
    CampbellConfig,
    D3PMConfig,
    MaskGITConfig,
    MultinomialConfig,
    SEDDConfig,
    SUNDAEConfig,
)
from ..configs import ADDED, YOURS
from ..data import Dataset
from ..mistakes import fail, require
from ..networks import Conditioning, HourglassConfig, TransformerConfig, UNetConfig, UViTConfig
from ..training import GenMD4Config, MD4Config, OptimizerConfig, RateConfig, TrainingConfig

_T = TypeVar("_T")
NetworkConfig = TransformerConfig | HourglassConfig | UNetConfig | UViTConfig
MethodConfig = (
    MD4Config
    | GenMD4Config
    | ARConfig
    | AOARMConfig
    | SEDDConfig
    | CampbellConfig
    | MaskGITConfig
    | D3PMConfig
    | MultinomialConfig
    | SUNDAEConfig
    | BlockConfig
)

METHODS: dict[str, type[MethodConfig]] = {
    "md4": MD4Config,
    "genmd4": GenMD4Config,
    **{name: baseline.config for name, baseline in BASELINES.items()},
}

SIZES: dict[str, tuple[int, int, int]] = {
    "1m": (4, 4, 144),
    "3m": (6, 4, 208),
    "10m": (8, 5, 320),
    "30m": (10, 8, 512),
    "85m": (12, 12, 768),
    "300m": (24, 16, 1024),
    "700m": (36, 20, 1280),
    "1b": (30, 26, 1664),
}
"""Layers, heads and width of a transformer with about this many parameters, not counting its embeddings."""

_BLOCK = 16
"""Tokens per block in block diffusion."""

IMAGE_SIZES: dict[str, tuple[int, int]] = {"1m": (3, 64), "3m": (5, 96), "10m": (11, 128), "30m": (32, 128)}
"""Blocks on each side of a U-Net, and its width."""


@dataclass(frozen=True)
class RunConfig:
    """Complete configuration of a run."""

    data: str
    """Folder of prepared data."""
    network: NetworkConfig
    method: MethodConfig = field(default_factory=MD4Config)
    training: TrainingConfig = field(default_factory=TrainingConfig)
    length: int | None = None
    """Tokens per sequence of packed data; None: as prepared."""
    start: str | None = None
    """Model whose weights training starts from; None: random weights."""

    def __post_init__(self) -> None:
        for part, known in ((self.network, get_args(NetworkConfig)), (self.method, tuple(METHODS.values()))):
            kind = type(part)
            require(
                kind in known or ADDED.get(kind.__name__) is kind,
                "a run with this part could not be loaded again",
                got=kind.__name__,
                allowed=", ".join(k.__name__ for k in known),
                do="register it with unmask.extend",
            )
        for order, needed in (("causal", self.method.needs_causal), ("block", self.method.needs_blocks)):
            given = getattr(self.network, order, False)
            do = f"leave --{order} out, or choose another --method"
            what = f"{method_name(self)} does not support --{order}"
            require(needed or not given, what, got=f"{order} {given}", allowed=f"no --{order}", do=do)


def method_name(config: RunConfig) -> str:
    """The name of a run's method."""
    return next(name for name, kind in METHODS.items() if type(config.method) is kind)


def default_config(data: str, size: str = "1m", method: str = "md4") -> RunConfig:
    """A run with a network that fits the data, small enough for a laptop unless a larger size is named."""
    manifest = Dataset(data).manifest
    pixels = len(manifest.shape) in (2, 3) and manifest.vocabulary_size == 256
    conditioning = Conditioning(classes=len(manifest.label_names))
    network: NetworkConfig
    if pixels:
        blocks, width = _named(size, IMAGE_SIZES)
        channels = manifest.shape[2] if len(manifest.shape) == 3 else 1
        network = UNetConfig(256, channels, blocks, width, groups=16, conditioning=conditioning)
    else:
        layers, heads, width = _named(size, SIZES)
        places = manifest.length if manifest.rows else 0
        network = TransformerConfig(
            manifest.vocabulary_size, layers, heads, width, positions=places, conditioning=conditioning
        )
    return with_method(RunConfig(data, network, training=quick_training()), method)


def quick_training(**fields: Any) -> TrainingConfig:
    """Settings for short training: Muon, with a learning rate that falls over the last 60 % of the steps."""
    optimizer = OptimizerConfig("muon", rate=2e-3, muon_rate=1e-2)
    return TrainingConfig(optimizer=optimizer, rate=RateConfig(cooldown="linear", cooldown_share=0.6), **fields)


def _named(size: str, sizes: dict[str, _T]) -> _T:
    if size not in sizes:
        fail("no network of this size for this data", got=size, allowed=", ".join(sizes), do="choose one of them")
    return sizes[size]


def with_method(config: RunConfig, method: str) -> RunConfig:
    """The same run with another method; some need a network that sees the time, or one that cannot look ahead."""
    if method not in METHODS:
        fail("unknown method", got=method, allowed=", ".join(METHODS), do=YOURS)
    if type(config.method) is METHODS[method]:
        return config
    chosen, seen = METHODS[method], config.network.conditioning
    causal, blocks = chosen.needs_causal, chosen.needs_blocks
    time = chosen.needs_time or (seen.time and not (causal or blocks))  # networks that read in order take no time
    network = replace(config.network, conditioning=replace(seen, time=time))
    if isinstance(network, TransformerConfig):
        network = replace(network, causal=causal, block=(network.block or _BLOCK) if blocks else 0)
    elif causal or blocks:
        fail("only a transformer can read in order", got=type(network).__name__, allowed="a transformer", do="use md4")
    return replace(config, method=chosen(), network=network)


def adapted_to_data(config: RunConfig, data: str) -> RunConfig:
    """The same recipe on other data: vocabulary size, classes and positions are taken from the data."""
    manifest = Dataset(data).manifest
    network = replace(config.network, vocab_size=manifest.vocabulary_size)
    if network.conditioning.classes:
        network = replace(network, conditioning=replace(network.conditioning, classes=len(manifest.label_names)))
    if isinstance(network, TransformerConfig) and network.positions:
        network = replace(network, positions=manifest.length)
    return replace(config, data=data, network=network)
