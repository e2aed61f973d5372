"""A transformer whose layers mix the values of the first into their own (Zhou et al., 2024), to measure what that does:

v_l ← (1 − λ_l) v_l + λ_l v_1, with a learned λ_l that starts at ½ in all layers but the first.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from unmask import extend
from unmask.networks import Past, Transformer, TransformerConfig
from unmask.networks.network import Dropout, per_branch


@extend.network
@dataclass(frozen=True)
class ValueResidualsConfig(TransformerConfig):
    """As that of a transformer."""

    def build(self) -> "ValueResiduals":
        return ValueResiduals(self)


class FirstValues(Past):
    """Hands attention what it is to look at, as a text read before does: here the same places, with mixed values."""

    def __init__(self) -> None:
        super().__init__()
        self.first: Tensor | None = None
        self.share: Tensor | None = None
        """λ of the layer that asks next."""

    def extended(self, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        if self.first is None or self.share is None:
            self.first = v
            return k, v
        return k, torch.lerp(v, self.first, self.share.to(v.dtype))


class ValueResiduals(Transformer):
    """All places see all."""

    def __init__(self, config: ValueResidualsConfig):
        super().__init__(config)
        self.ragged = False
        self.shares = nn.Parameter(torch.full((config.layers,), 0.5))

    def features(
        self,
        x_t: Tensor,
        t: Tensor | None = None,
        label: Tensor | None = None,
        dropout: Dropout = (),
        lengths: Tensor | None = None,
    ) -> Tensor:
        del lengths  # not ragged: nobody has any
        x, c = self._begun(x_t, t, label)
        cos, sin = self.rotations(x.shape[1])
        keep = per_branch(dropout, 0, 2 * len(self.blocks))
        values = FirstValues()
        for i, block in enumerate(self.blocks):
            values.share = self.shares[i]
            x = block(x, cos, sin, c, keep[2 * i], keep[2 * i + 1], past=values)
        return self._ended(x, c)
