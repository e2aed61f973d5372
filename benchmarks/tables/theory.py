"""Tables on estimators and errors."""

from typing import Any

from .form import source


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


def interval_coverage(result: dict[str, Any]) -> str:
    """One row per estimator."""
    lines = ["| estimator | Monte-Carlo interval, given the sequences | interval over sequences |", "|---|---|---|"]
    lines += [f"| {r['estimator']} | {r['monte_carlo']:.1%} | {r['over_sequences']:.1%} |" for r in result["rows"]]
    error = result["error_of_a_rate"]
    note = f"Nominal: 95 %; each rate has a standard error of {error:.1%} ({result['repetitions']} repetitions)."
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
        ways = " | ".join(f"{r[way]['mean']:.2f} ± {r[way]['error']:.2f}" for way in ("campbell", "md4"))
        ratio = f"{r['variance_ratio']:.1f} ({r['low']:.1f}–{r['high']:.1f})"
        lines.append(f"| {r['length']} | {r['truth']:.2f} | {ways} | {ratio} |")
    about = f"{result['estimates']:,} estimates, {result['times']} times: the median of the ratios, and all of them."
    return "\n".join([*lines, "", f"{about} {source(result)}"])


def window_dependence(result: dict[str, Any]) -> str:
    """One row per length of the window and of the text."""
    names = ("text length", "window", "true error", "over windows", "over ten blocks", "coverage: windows")
    lines = ["| " + " | ".join([*names, "coverage: ten blocks"]) + " |", "|---" * 7 + "|"]
    for r in result["rows"]:
        ways = r["windows"], r["blocks"]
        errors = " | ".join(f"{way['error']:.4f}" for way in ways)
        held = " | ".join(f"{way['held']:.0%}" for way in ways)
        text = f"{r['piece']:,} characters ({r['pieces']} of them)"
        lines.append(f"| {text} | {r['window']:,} | {r['error']:.4f} | {errors} | {held} |")
    about = f"{result['order']}-gram model of {result['counted']:,} characters, bits per character."
    nominal = "Nominal coverage of the mean of all texts: 95 %."
    return "\n".join([*lines, "", f"{about} {nominal} {source(result)}"])
