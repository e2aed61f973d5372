"""A causal language model from Hugging Face as a judge of texts: generative perplexity, and features for MAUVE."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..mistakes import extra, fail, first_line, require
from .distances import Features
from .likelihood import Scores

_ROWS = 8
"""Texts per batch."""


class Judge:
    """A model that judges texts. It uses its own tokenizer, and cuts texts that are longer than its context."""

    def __init__(self, name: str, device: torch.device | str = "cpu"):
        """`name`: a folder, or a model id on the hub."""
        transformers = extra("transformers", "judge", "judging texts with a language model")
        try:
            self._tokenizer: Any = transformers.AutoTokenizer.from_pretrained(name)
            self._model: Any = transformers.AutoModelForCausalLM.from_pretrained(name).to(device).eval()
        except (OSError, ValueError, KeyError) as problem:
            got, do = f"{name} ({first_line(problem)})", "check the name"
            fail("the judge cannot be loaded", got=got, allowed="a causal model", do=do)
        self.name = name
        most = getattr(self._model.config, "max_position_embeddings", None)  # some kinds have no limit of their own
        self.context: int = most or self._tokenizer.model_max_length
        self._device = device

    @torch.no_grad()
    def surprise(self, texts: Sequence[str]) -> Scores:
        """−log p of each text in nats; its first token is given, so a text counts one token less than it has."""
        nats, tokens = [], []
        for ids, mask in self._batches(texts):
            log_p = self._model(input_ids=ids, attention_mask=mask).logits[:, :-1].float().log_softmax(-1)
            found = log_p.gather(-1, ids[:, 1:, None])[..., 0].double() * mask[:, 1:]
            nats.append(-found.sum(1).cpu().numpy())
            tokens.append(mask[:, 1:].sum(1).cpu().numpy())
        counts = np.concatenate(tokens)
        some = int(counts.sum()) > 0
        require(some, "there is nothing to judge", got="texts of one token", allowed="longer ones", do="sample more")
        return Scores(np.concatenate(nats), np.zeros(len(counts)), counts, len(counts))

    @torch.no_grad()
    def features(self, texts: Sequence[str]) -> Features:
        """The last layer at the last token [n, d], which MAUVE uses."""
        found = []
        for ids, mask in self._batches(texts):
            hidden = self._model(input_ids=ids, attention_mask=mask, output_hidden_states=True).hidden_states[-1]
            last = mask.sum(1).clamp(min=1) - 1
            found.append(hidden[torch.arange(len(ids)), last].double().cpu().numpy())
        return np.concatenate(found)

    def _batches(self, texts: Sequence[str]) -> Iterator[tuple[Tensor, Tensor]]:
        """Token ids and which of them count, [B, N]."""
        for start in range(0, len(texts), _ROWS):
            rows = [self._tokenizer(text)["input_ids"][: self.context] for text in texts[start : start + _ROWS]]
            size = max(1, *map(len, rows))
            ids, mask = (torch.zeros(len(rows), size, dtype=torch.int64) for _ in range(2))
            for i, row in enumerate(rows):
                ids[i, : len(row)] = torch.tensor(row, dtype=torch.int64)
                mask[i, : len(row)] = 1
            yield ids.to(self._device), mask.to(self._device)
