"""Write the tables of the documents from the JSON under `results/`.

A table stands between `<!-- table NAME -->` and `<!-- end -->` in a Markdown file; `make results` rewrites it.

    python -m benchmarks.tables
"""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .record import RESULTS

ROOT = Path(__file__).parent.parent
PLACE = re.compile(r"(<!-- table (?P<name>\w+) -->\n).*?(<!-- end -->)", re.DOTALL)


def estimator_variance(result: dict[str, Any]) -> str:
    """One row per estimator, one pair of columns per chain."""
    chains = result["chains"]
    lines = [
        "| estimator | " + " | ".join(f"{c['chain']}: sd | variance reduction (95 %)" for c in chains) + " |",
        "|---" * (1 + 2 * len(chains)) + "|",
    ]
    for rows in zip(*(c["rows"] for c in chains), strict=True):
        cells = (
            f"{r['sd_bits_per_letter']:.4f} | {r['variance_reduction']:.1f} "
            f"({r['variance_reduction_95'][0]:.1f}–{r['variance_reduction_95'][1]:.1f})"
            for r in rows
        )
        lines.append(f"| {rows[0]['estimator']} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", source(result)])


def preparation_memory(result: dict[str, Any]) -> str:
    """One row per vocabulary."""
    gigabytes = result["bytes"] / 1e9
    lines = [
        f"| vocabulary, {gigabytes:.1f} GB of text, {result['workers']} workers | peak MiB |",
        "|---|---|",
    ]
    lines += [f"| {row['vocabulary']} | {row['peak_mib']} |" for row in result["rows"]]
    return "\n".join([*lines, "", source(result)])


def network_runs(*results: dict[str, Any]) -> str:
    """One row per type of network."""
    lines = [
        "| preset | data | parameters | steps × batch | loss: first, last ten | held out | bf16 − fp32, steps 1–20 "
        "| all steps compared |",
        "|---" * 8 + "|",
    ]
    for r in results:
        loss, held = r["bf16"]["loss"], r["bf16"]["held_out"]
        gaps = [abs(a - b) for a, b in zip(loss, r["fp32"]["loss"], strict=False)]
        lines.append(
            f"| `{r['preset']}` | {r['data']} | {r['parameters'] / 1e6:.1f} M | {r['steps']} × {r['batch_size']} "
            f"| {loss[0]:.2f}, {sum(loss[-10:]) / 10:.2f} | {held['mean']:.3f} ± {held['error']:.3f} "
            f"| {max(gaps[:20]):.4f} | {max(gaps):.3f} in {len(gaps)} |"
        )
    return "\n".join([*lines, "", *(source(r) for r in results)])


def training_speed(result: dict[str, Any]) -> str:
    """One row per setting."""
    lines = [
        "| setting | batch | tokens/s (slowest–fastest window) | sequences/s | MFU | peak GiB "
        "| plain compiled: tokens/s | its peak GiB |",
        "|---" * 8 + "|",
    ]
    for r in result["rows"]:
        plain = r["plain"] or {}
        beside = f"{plain['tokens_per_s']:,.0f} | {plain['peak_gib']:.1f}" if plain else " | "
        low, high = r["spread"]
        lines.append(
            f"| {r['case']} | {r['batch_size']} | {r['tokens_per_s']:,.0f} ({low:,.0f}–{high:,.0f})"
            f" | {r['sequences_per_s']:,.0f} | {r['mfu']:.0%} | {r['peak_gib']:.1f} | {beside} |"
        )
    return "\n".join([*lines, "", source(result)])


def training_breakdown(result: dict[str, Any]) -> str:
    """Shares of the time by component, one column per setting."""
    rows = [r for r in result["rows"] if "," not in r["case"].removeprefix("text8, ").removesuffix(", V = 50,257")]
    kinds = sorted({kind for r in rows for kind in r["breakdown"]}, key=lambda k: -rows[0]["breakdown"].get(k, 0.0))
    lines = ["| | " + " | ".join(r["case"] for r in rows) + " |", "|---" * (1 + len(rows)) + "|"]
    lines += [f"| {kind} | " + " | ".join(f"{r['breakdown'].get(kind, 0):.1%}" for r in rows) + " |" for kind in kinds]
    return "\n".join(lines)


def training_ablation(result: dict[str, Any]) -> str:
    """One row per change, one column per setting: speed against "as it is", and memory."""
    cases = list(dict.fromkeys(r["case"] for r in result["rows"]))
    found = {(r["change"], r["case"]): r for r in result["rows"]}
    lines = ["| | " + " | ".join(cases) + " |", "|---" * (1 + len(cases)) + "|"]
    for change in dict.fromkeys(r["change"] for r in result["rows"]):
        cells = []
        for case in cases:
            row, first = found.get((change, case)), found[result["rows"][0]["change"], case]
            if row is None:
                cells.append("")
                continue
            ratio = "" if row is first else f" ({row['tokens_per_s'] / first['tokens_per_s'] - 1:+.1%})"
            cells.append(f"{row['tokens_per_s']:,.0f}{ratio}, {row['peak_gib']:.1f} GiB")
        lines.append(f"| {change} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", source(result)])


def sampling_speed(*results: dict[str, Any]) -> str:
    """One row per way and batch size; the last way of each file is the straightforward one."""
    lines = [
        "| way | samples | seconds | tokens/s | network calls per sample | peak GiB | times as fast |",
        "|---" * 7 + "|",
    ]
    for result in results:
        slowest = result["rows"][-1]["seconds"]
        lines += [
            f"| {r['way']} | {r['samples']} | {r['seconds']:.2f} | {r['tokens_per_s']:,.0f} "
            f"| {r['calls_per_sample']:.1f} | {r['peak_gib']:.1f} | {slowest / r['seconds']:.1f} |"
            for r in result["rows"]
        ]
    return "\n".join([*lines, "", *(source(r) for r in results)])


def training_scale(result: dict[str, Any]) -> str:
    """Sizes, lengths and the largest model, each with and without recomputing."""

    def line(r: dict[str, Any]) -> str:
        what = f"{r['parameters'] / 1e6:,.0f} M ({r['layers']}×{r['width']})"
        figures = f"{r['tokens_per_s']:,.0f} | {r['peak_gib']:.1f}"
        return f"| {what} | {r['length']:,} | {'recomputed' if r['checkpoint'] else 'kept'} | {figures} |"

    lines = ["| parameters | length | activations | tokens/s | peak GiB |", "|---" * 5 + "|"]
    lines += [line(r) for part in ("sizes", "lengths", "largest") for r in result[part] if r["tokens_per_s"]]
    return "\n".join([*lines, "", source(result)])


def cpu_speed(*results: dict[str, Any]) -> str:
    """One row per preset."""
    kinds = sorted(results[0]["breakdown"], key=lambda kind: -results[0]["breakdown"][kind])
    lines = ["| command | tokens/s | cores kept busy | " + " | ".join(kinds) + " |", "|---" * (3 + len(kinds)) + "|"]
    for r in results:
        shares = " | ".join(f"{r['breakdown'].get(kind, 0):.0%}" for kind in kinds)
        lines.append(f"| `{r['command']}` | {r['tokens_per_s']:,.0f} | {r['cores']:.2f} | {shares} |")
    return "\n".join(
        [*lines, "", f"torch {results[0]['versions']['torch']}, {results[0]['device']}, {results[0]['date']}."]
    )


def interval_coverage(result: dict[str, Any]) -> str:
    """One row per estimator."""
    lines = ["| estimator | Monte-Carlo interval, given the sequences | interval over sequences |", "|---|---|---|"]
    lines += [f"| {r['estimator']} | {r['monte_carlo']:.1%} | {r['over_sequences']:.1%} |" for r in result["rows"]]
    error = result["error_of_a_rate"]
    note = f"Stated: 95 %; each rate has an error of {error:.1%} ({result['repetitions']} repetitions)."
    return "\n".join([*lines, "", note, source(result)])


def estimator_efficiency(result: dict[str, Any]) -> str:
    """One row per estimator."""
    lines = [
        f"| estimator | network calls for ±{result['target']} bits per token | mean, bits per token |",
        "|---|---|---|",
    ]
    lines += [
        f"| {r['estimator']} | {r['calls']:,} | {r['bits_per_token']:.4f} ± {r['monte_carlo_error']:.4f} |"
        for r in result["rows"]
    ]
    return "\n".join([*lines, "", source(result)])


def campbell_variance(result: dict[str, Any]) -> str:
    """One row per length."""
    lines = ["| tokens | −log p, nats | one jump | all masked tokens (MD4) | variance ratio |", "|---" * 5 + "|"]
    for r in result["rows"]:
        cells = (f"{r[way]['mean']:.1f} ± {r[way]['error']:.1f}" for way in ("campbell", "md4"))
        lines.append(f"| {r['length']} | {r['truth']:.1f} | {' | '.join(cells)} | {r['variance_ratio']:.1f} |")
    return "\n".join([*lines, "", f"{result['estimates']:,} estimates each. {source(result)}"])


def evaluations(*results: dict[str, Any]) -> str:
    """One row per data set."""
    lines = ["| data | sequences | tokens | bits per token | network calls | seconds |", "|---" * 6 + "|"]
    for r in results:
        found = r["result"]
        figure = found["bits_per_token"]
        lines.append(
            f"| {r['data']}, test | {found['sequences']:,} | {found['tokens']:,} | {figure['mean']:.4f} ± "
            f"{figure['error']:.4f} (Monte Carlo {figure['monte_carlo']:.4f}) | {found['network_calls']:,} "
            f"| {r['duration_s']:.0f} |"
        )
    return "\n".join([*lines, "", *(source(r) for r in results)])


def questions(result: dict[str, Any]) -> str:
    """One row."""
    found = result["result"]
    rates = [f"{found[f'accuracy{by}']:.1%} ± {found[f'error{by}']:.1%}" for by in ("", "_per_byte")]
    lines = [
        "| questions | accuracy | per byte | seconds per question |",
        "|---" * 4 + "|",
        f"| {found['questions']:,} | {' | '.join(rates)} | {found['seconds_per_question']:.3f} |",
    ]
    return "\n".join([*lines, "", source(result)])


def methods(*results: dict[str, Any]) -> str:
    """One row per method and seed, the best first."""
    lines = [
        "| method | bits per character, test | parameters | ms per step | noise of the loss | steps clipped "
        "| largest gradient ÷ median | seed |",
        "|---" * 8 + "|",
    ]
    for r in sorted(results, key=lambda r: r["result"]["bits_per_character"]["mean"]):
        bits, calm = r["result"]["bits_per_character"], r["training"]
        lines.append(
            f"| `{r['method']}` | {bits['mean']:.3f} ± {bits['error']:.3f} | {r['parameters'] / 1e6:.1f} M "
            f"| {r['milliseconds_per_step']:.1f} | {calm['loss_noise']:.3f} | {calm['clipped']:.1%} "
            f"| {calm['gradient_largest'] / calm['gradient_median']:.1f} | {r['seed']} |"
        )
    first = results[0]
    versions = ", ".join(f"{name} {version}" for name, version in first["versions"].items())
    budget = f"{first['steps']:,} steps, {first['tokens'] / 1e6:.0f} M characters each"
    command = "python -m benchmarks.text8_methods METHOD data/text8 runs/METHOD --seed SEED"
    return "\n".join([*lines, "", f"{budget}. `{command}`, {versions}, {first['device']}, {first['date']}."])


def experiments(*results: dict[str, Any]) -> str:
    """One line per run, the shortest budgets first and the best of them last."""
    lines = [
        "| what | parameters | seconds | steps | tokens | bits per character | of | seed |",
        "|---" * 8 + "|",
    ]
    for r in sorted(results, key=lambda r: (r["budget_s"], -r["result"]["bits_per_character"]["mean"])):
        bits, found = r["result"]["bits_per_character"], r["result"]
        lines.append(
            f"| `{r['name']}` {r['about']} | {r['parameters'] / 1e6:.0f} M | {r['training_s']:.0f} | {r['steps']:,} "
            f"| {r['tokens'] / 1e6:,.0f} M | {bits['mean']:.3f} ± {bits['error']:.3f} "
            f"| {found['split']}, {found['sequences']:,} | {r['seed']} |"
        )
    versions = ", ".join(f"{name} {version}" for name, version in results[0]["versions"].items())
    return "\n".join([*lines, "", f"The command of each is in its JSON. {versions}, {results[0]['device']}."])


def shipped_bound(result: dict[str, Any]) -> str:
    """The held-out bound in every unit that has a meaning here."""
    found = result["result"]
    units = ("bits_per_byte", "bits_per_character", "bits_per_token")
    lines = ["| | held out |", "|---|---|", f"| tokens | {found['tokens']:,} in {found['sequences']:,} sequences |"]
    lines += [
        f"| {unit.replace('_', ' ')} | {found[unit]['mean']:.3f} ± {found[unit]['error']:.3f} |"
        for unit in units
        if found.get(unit)
    ]
    return "\n".join([*lines, "", source(result)])


def shipped_writing(result: dict[str, Any]) -> str:
    """Samples as quotations, gaps with what was put in."""
    lines = []
    for flags, samples in result["samples"].items():
        lines += [f"`unmask sample demo -n 2 {flags}`", ""]
        for text in samples:
            lines += [*(f"> {line}".rstrip() for line in text.strip().splitlines()), ""]
    for text, filled in result["filled"].items():
        lines += [f"`{text}`", "", *(f"- {answer}" for answer in filled), ""]
    return "\n".join([*lines, source(result)])


def vocabulary_choice(result: dict[str, Any]) -> str:
    """One row per set-up."""
    lines = ["| vocabulary and network | parameters | bits per byte, held out |", "|---|---|---|"]
    lines += [
        f"| {r['what']} | {r['parameters'] / 1e6:.1f} M | {r['bits_per_byte']['mean']:.3f} ± "
        f"{r['bits_per_byte']['error']:.3f} |"
        for r in result["rows"]
    ]
    return "\n".join([*lines, "", result["note"], source(result)])


def serving_load(result: dict[str, Any]) -> str:
    """One row per way of working, and how memory went."""
    lines = [
        "| | requests/s | tokens/s | median, s | 95 %, s | 200 | 429 | other |",
        "|---" * 8 + "|",
    ]
    for name, way in (("one at a time", "one_at_a_time"), ("together", "together")):
        r = result[way]
        counts = [r["statuses"].get(code, 0) for code in ("200", "429")]
        other = sum(r["statuses"].values()) - sum(counts)
        lines.append(
            f"| {name} | {r['requests_per_s']:.1f} | {r['tokens_per_s']:,.0f} | {r['latency_s']['median']:.1f} "
            f"| {r['latency_s']['p95']:.1f} | {counts[0]:,} | {counts[1]:,} | {other:,} |"
        )
    shared = result["together"]
    memory = shared["resident_mib"]
    note = (
        f"{shared['clients']} clients for {shared['seconds']:.0f} s: {result['times_as_fast']:.1f} times as many "
        f"tokens. Resident memory after a sixth of the time {memory[2]:,.0f} MiB, at the end {memory[-1]:,.0f} MiB."
    )
    return "\n".join([*lines, "", note, source(result)])


def protocol_tokens(result: dict[str, Any]) -> str:
    """One row per set."""
    lines = ["| set | rows | GPT-2 subwords | sedd | mdlm | md4 |", "|---" * 6 + "|"]
    for r in result["rows"]:
        counts = " | ".join(f"{r[name]:,}" for name in ("rows", "tokens", "sedd", "mdlm", "md4"))
        lines.append(f"| {r['set']} (`{r['file']}`) | {counts} |")
    return "\n".join([*lines, "", source(result)])


def source(result: dict[str, Any]) -> str:
    """Where the figures come from."""
    versions = ", ".join(f"{name} {version}" for name, version in result["versions"].items())
    return f"`{result['command']}`, seed {result['seed']}, {versions}, {result['device']}, {result['date']}."


TABLES: dict[str, tuple[Callable[..., str], tuple[str, ...]]] = {
    "estimator_variance": (estimator_variance, ("estimator_variance",)),
    "preparation_memory": (preparation_memory, ("preparation_memory",)),
    "training_speed": (training_speed, ("training_speed",)),
    "training_breakdown": (training_breakdown, ("training_speed",)),
    "training_ablation": (training_ablation, ("training_ablation",)),
    "sampling_speed": (sampling_speed, ("sampling_speed", "sampling_latency")),
    "training_scale": (training_scale, ("training_scale",)),
    "cpu_speed": (cpu_speed, ("cpu_characters", "cpu_mnist", "cpu_molecules")),
    "interval_coverage": (interval_coverage, ("interval_coverage",)),
    "estimator_efficiency": (estimator_efficiency, ("estimator_efficiency",)),
    "campbell_variance": (campbell_variance, ("campbell_variance",)),
    "evaluations": (evaluations, ("evaluation_text8", "evaluation_mnist")),
    "questions": (questions, ("evaluation_hellaswag",)),
    "methods": (methods, ("methods/*",)),
    "experiments": (experiments, ("speedrun/*",)),
    "shipped_demo": (shipped_bound, ("shipped_demo",)),
    "shipped_digits": (shipped_bound, ("shipped_digits",)),
    "shipped_writing": (shipped_writing, ("shipped_demo",)),
    "vocabulary_choice": (vocabulary_choice, ("vocabulary_choice",)),
    "serving_load": (serving_load, ("serving_load",)),
    "protocol_tokens": (protocol_tokens, ("protocol_tokens",)),
    "network_runs": (network_runs, ("network_run_transformer", "network_run_unet", "network_run_uvit")),
}
"""How each table is made, and from which results."""


def filled(text: str) -> str:
    """The text with each table written anew."""

    def fill(place: re.Match[str]) -> str:
        make, names = TABLES[place["name"]]
        files = [file for name in names for file in sorted(RESULTS.glob(f"{name}.json"))]
        if len(files) < len(names):
            raise FileNotFoundError(f"no result for the table {place['name']}: {', '.join(names)}")
        return f"{place[1]}{make(*(json.loads(file.read_text()) for file in files))}\n{place[3]}"

    return PLACE.sub(fill, text)


def documents() -> list[Path]:
    """The Markdown files that may hold tables."""
    cards = sorted((ROOT / "src/unmask/models").glob("*/README.md"))
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *cards]


if __name__ == "__main__":
    for document in documents():
        document.write_text(filled(document.read_text()))
