"""Tables on speed and memory."""

from typing import Any

from .form import source


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
        beside = f"{_speed(plain)} | {plain['peak_gib']:.1f}" if plain else " | "
        lines.append(
            f"| {r['case']} | {r['batch_size']} | {_speed(r)}"
            f" | {r['sequences_per_s']:,.0f} | {r['mfu']:.0%} | {r['peak_gib']:.1f} | {beside} |"
        )
    return "\n".join([*lines, "", source(result)])


def _speed(r: dict[str, Any]) -> str:
    """Tokens/s, with the slowest and the fastest window."""
    low, high = r["spread"]
    return f"{r['tokens_per_s']:,.0f} ({low:,.0f}–{high:,.0f})"


def training_breakdown(result: dict[str, Any]) -> str:
    """The share of time of each component, one column per setting."""
    rows = [r for r in result["rows"] if "," not in r["case"].removeprefix("text8, ").removesuffix(", V = 50,257")]
    kinds = sorted({kind for r in rows for kind in r["breakdown"]}, key=lambda k: -rows[0]["breakdown"].get(k, 0.0))
    lines = ["| | " + " | ".join(r["case"] for r in rows) + " |", "|---" * (1 + len(rows)) + "|"]
    lines += [f"| {kind} | " + " | ".join(f"{r['breakdown'].get(kind, 0):.1%}" for r in rows) + " |" for kind in kinds]
    return "\n".join([*lines, "", source(result)])


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


def kept_memory(result: dict[str, Any]) -> str:
    """One row per workload."""
    lines = ["| workload | speed-up | peak memory, MiB: default, kept |", "|---" * 3 + "|"]
    lines += [
        f"| {r['work']} | {r['times_as_fast']:.2f} | {r['as usual']['peak_mib']:,}, {r['kept']['peak_mib']:,} |"
        for r in result["rows"]
    ]
    note = f"Medians of {result['rounds']} alternating processes each, {result['threads']} threads."
    return "\n".join([*lines, "", f"{note} {source(result)}"])


def training_scale(result: dict[str, Any]) -> str:
    """Sizes, lengths and the largest model, each with and without recomputing activations."""

    def line(r: dict[str, Any]) -> str:
        what = f"{r['parameters'] / 1e6:,.0f} M ({r['layers']}×{r['width']})"
        figures = f"{r['tokens_per_s']:,.0f} | {r['peak_gib']:.1f}"
        return f"| {what} | {r['length']:,} | {'recomputed' if r['recompute'] else 'kept'} | {figures} |"

    lines = ["| parameters | length | activations | tokens/s | peak GiB |", "|---" * 5 + "|"]
    lines += [line(r) for part in ("sizes", "lengths", "largest") for r in result[part] if r["tokens_per_s"]]
    return "\n".join([*lines, "", source(result)])


def cpu_speed(*results: dict[str, Any]) -> str:
    """One row per preset, with its speed and the share of time of each component."""
    together: dict[str, float] = {}
    for r in results:
        for kind, part in r["breakdown"].items():
            together[kind] = together.get(kind, 0.0) + part
    kinds = sorted(together, key=lambda kind: -together[kind])
    titles = ["preset", "tokens/s (slowest–fastest window)", "cores kept busy", *kinds]
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for r in results:
        shares = " | ".join(f"{r['breakdown'].get(kind, 0):.0%}" for kind in kinds)
        lines.append(f"| `{r['command'].split()[3]}` | {_speed(r)} | {r['cores']:.2f} | {shares} |")
    return "\n".join([*lines, "", *(source(r) for r in results)])


def sampling_speed(*results: dict[str, Any]) -> str:
    """One row per sampler and batch size; the last row of each file is the straightforward implementation."""
    lines = [
        "| sampler | samples | seconds | tokens/s | network calls per sample | peak GiB | speed-up |",
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


def serving_load(result: dict[str, Any]) -> str:
    """One row for separate and one for shared network calls, and memory use."""
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
        f"tokens. Resident memory: {memory[2]:,.0f} MiB after a sixth of the time, {memory[-1]:,.0f} MiB at the end."
    )
    return "\n".join([*lines, "", note, source(result)])
