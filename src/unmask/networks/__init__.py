"""Networks: functions of tokens, times and labels that know nothing of the masking process.

Every network splits into `features` (one vector per position) and `head` (a vector → V logits), so that the
head runs only where it is needed. `cost` counts parameters, operations and memory without allocating a network.
"""

from .conditioning import Conditioning
from .cost import Cost, cost
from .hourglass import Hourglass, HourglassConfig
from .network import Halves, HiddenLayer, Network
from .replay import Replayed
from .transformer import KVCache, Transformer, TransformerConfig
from .unet import UNet, UNetConfig
from .uvit import UViT, UViTConfig

__all__ = [
    "Conditioning",
    "Cost",
    "Halves",
    "HiddenLayer",
    "Hourglass",
    "HourglassConfig",
    "KVCache",
    "Network",
    "Replayed",
    "Transformer",
    "TransformerConfig",
    "UNet",
    "UNetConfig",
    "UViT",
    "UViTConfig",
    "cost",
]
