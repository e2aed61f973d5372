"""README.md of an exported model: its model card."""

from .describe import Description

_HEAD = """\
---
library_name: unmask
tags:
- masked-diffusion
- {tag}
---
"""


def card(name: str, about: dict[str, str], found: Description) -> str:
    """The text of the card; `about` is what is stored beside the weights."""
    rows = {
        "method": found.method,
        "network": found.network,
        "parameters": f"{found.parameters:,}",
        "data": found.data,
        "vocabulary": f"{found.vocabulary} (V = {found.vocabulary_size:,})",
        "a sample": found.rows,
        "classes": ", ".join(found.classes[:20]) + (" …" if len(found.classes) > 20 else ""),
        "training": found.training,
        "weights": ", ".join(about[key] for key in ("weights", "dtype") if key in about),
        "held-out bound": about.get("held_out", ""),
    }
    table = "\n".join(f"| {key} | {_cell(value)} |" for key, value in rows.items() if value)
    figures = "\n".join(f"- {line}" for line in about.get("measured", "").splitlines())
    parts = [
        _HEAD.format(tag=found.method.split(":")[0].lower()),
        f"# {name.rsplit('/', 1)[-1]}\n\nA masked diffusion model made with unmask.\n",
        f"| | |\n|---|---|\n{table}\n",
        f"## Measured\n\n{figures}\n" if figures else "",
        _usage(name),
    ]
    return "\n".join(part for part in parts if part)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _usage(name: str) -> str:
    return f"""## Use

```bash
unmask info {name}
unmask sample {name} -n 4
```

```python
import unmask

model = unmask.load("{name}")
print(model.sample(4, seed=0))
```

`config.json` records how it was trained; `vocabulary.json` and `data.json` hold what else is needed to use it.
"""
