"""Tables of bounds on held-out data."""

from collections.abc import Callable
from typing import Any

from .form import share, source, sources, with_error


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


def compression(result: dict[str, Any]) -> str:
    """The usual compressors, one row per number of network calls, and the bound."""
    size = result["text"]["bytes"]
    lines = ["| compressor | bytes | bits per byte of text |", "|---|---|---|"]
    lines.append(f"| none: the text itself | {size:,} | 8 |")
    lines += [f"| {name} | {found:,} | {8 * found / size:.3f} |" for name, found in result["others"].items()]
    lines += [
        f"| `{result['model']}`, {r['steps']} calls per window | {r['file']:,} | {8 * r['file'] / size:.3f}, "
        f"without the header {8 * r['code'] / size:.3f} |"
        for r in sorted(result["rows"], key=lambda r: r["steps"])
    ]
    bound = result["bound"]
    lines.append(f"| the bound for this text | | {bound['mean']:.3f} ± {bound['monte_carlo']:.3f} (masks alone) |")
    text = f"{result['text']['tokens']:,} tokens in {result['text']['windows']} windows."
    return "\n".join([*lines, "", f"{text} {source(result)}"])


def questions(result: dict[str, Any]) -> str:
    """One row."""
    found = result["result"]
    rates = [share(found[f"accuracy{by}"], found[f"error{by}"]) for by in ("", "_per_byte")]
    lines = [
        "| questions | accuracy | per byte | seconds per question |",
        "|---" * 4 + "|",
        f"| {found['questions']:,} | {' | '.join(rates)} | {found['seconds_per_question']:.3f} |",
    ]
    return "\n".join([*lines, "", source(result)])


def protocol_tokens(result: dict[str, Any]) -> str:
    """One row per set."""
    lines = ["| set | rows | GPT-2 subwords | sedd | mdlm | md4 |", "|---" * 6 + "|"]
    for r in result["rows"]:
        counts = " | ".join(f"{r[name]:,}" for name in ("rows", "tokens", "sedd", "mdlm", "md4"))
        lines.append(f"| {r['set']} (`{r['file']}`) | {counts} |")
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
    budget = f"{first['steps']:,} steps, {first['tokens'] / 1e6:.0f} M characters each"
    command = "`python -m benchmarks.text8_methods METHOD data/text8 runs/METHOD --seed SEED`"
    return "\n".join([*lines, "", f"{budget}. {sources(results, command)}"])


def learned_schedules(*results: dict[str, Any]) -> str:
    """One row per method, number of steps, variant and seed."""
    titles = (
        "method",
        "steps",
        "training, s",
        "bits per character, test",
        "± masks alone",
        "w: smallest, largest",
        "seed",
    )
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for r in sorted(results, key=lambda r: (r["method"], r["steps"], r["about"], r["seed"])):
        w, bits = sorted(r.get("w", {}).values()), r["result"]["bits_per_character"]
        lines.append(
            f"| `{r['method']}`, {r['about']} | {r['steps']:,} "
            f"| {r['steps'] * r['milliseconds_per_step'] / 1000:.0f} | {with_error(bits)} | {bits['monte_carlo']:.3f} "
            f"| {f'{w[0]:.2f}, {w[-1]:.2f}' if w else ''} | {r['seed']} |"
        )
    command = (
        "`python -m benchmarks.text8_methods METHOD data/text8 runs/METHOD --steps STEPS --name genmd4/METHOD-STEPS "
        "--seed SEED`"
    )
    return "\n".join([*lines, "", sources(results, command)])


def experiments(*results: dict[str, Any]) -> str:
    """One line per run, the shortest budgets first and the best of them last."""
    return _timed("bits_per_character", "bits per character", results)


def pixel_experiments(*results: dict[str, Any]) -> str:
    """The same for images, whose tokens are dimensions."""
    return _timed("bits_per_token", "bits per dimension", results)


def text_experiments(*results: dict[str, Any]) -> str:
    """The same for text in subwords."""
    return _timed("bits_per_token", "bits per token", results)


def _timed(name: str, title: str, results: tuple[dict[str, Any], ...]) -> str:
    """One row per run recorded by `benchmarks.timed`."""
    lines = [
        f"| what | parameters | seconds | steps | tokens | {title} | measured on | seed | date |",
        "|---" * 9 + "|",
    ]
    for r in sorted(results, key=lambda r: (r["budget_s"], -r["result"][name]["mean"])):
        found = r["result"]
        lines.append(
            f"| `{r['name']}` {r['about']} | {r['parameters'] / 1e6:.0f} M | {r['training_s']:.0f} | {r['steps']:,} "
            f"| {r['tokens'] / 1e6:,.0f} M | {with_error(found[name])} "
            f"| {found['split']}, {found['sequences']:,} | {r['seed']} | {r['date']} |"
        )
    return "\n".join([*lines, "", sources(results, "The command of each run is in its JSON")])


def explorations(*results: dict[str, Any]) -> str:
    """One row per change: its difference to the base in bits per character, for each seed; the largest gain first."""
    trials: dict[str, dict[int, dict[str, Any]]] = {}
    for r in results:
        trials.setdefault(r["trial"], {})[r["seed"]] = r
    base = trials.pop("base")
    seeds = sorted(base)

    def line(runs: dict[int, dict[str, Any]], cell: Callable[[dict[str, Any]], str]) -> str:
        (about,) = {r["about"] for r in runs.values()}
        steps = " / ".join(f"{runs[seed]['steps']:,}" for seed in seeds if seed in runs)
        cells = " | ".join(cell(runs[seed]) if seed in runs else "" for seed in seeds)
        return f"| {about} | {cells} | {steps} |"

    def gain(runs: dict[int, dict[str, Any]]) -> float:
        return float(sum(r["difference"]["mean"] for r in runs.values()) / len(runs))

    titles = ["change", *(f"seed {seed}" for seed in seeds), "steps"]
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    lines.append(line(base, lambda r: with_error(r["result"]["bits_per_character"])))
    lines += [line(runs, lambda r: _signed(r["difference"])) for runs in sorted(trials.values(), key=gain)]
    note = f"{base[seeds[0]]['budget_s']:g} s of training each. The bases:"
    return "\n".join([*lines, "", note, *(source(base[seed]) for seed in seeds)])


def _signed(figure: dict[str, float]) -> str:
    return f"{figure['mean']:+.4f} ± {figure['error']:.4f}"


def text8_record(*results: dict[str, Any]) -> str:
    """The longest runs, with the text they read counted in characters, of which a subword has several."""

    def characters(r: dict[str, Any]) -> float:
        found = r["result"]
        return float(r["tokens"] * found["bits_per_token"]["mean"] / found["bits_per_character"]["mean"] / 1e6)

    return _records("bits_per_character", "bits per character", "characters read, M", characters, results)


def cifar10(*results: dict[str, Any]) -> str:
    """The same for images."""

    def images(r: dict[str, Any]) -> float:
        return float(r["tokens"] / (r["result"]["tokens"] / r["result"]["sequences"]) / 1e6)

    return _records("bits_per_token", "bits per dimension", "images seen, M", images, results)


def text_record(*results: dict[str, Any]) -> str:
    """The same for text in subwords."""
    return _records("bits_per_token", "bits per token", "tokens read, M", lambda r: r["tokens"] / 1e6, results)


def _records(
    name: str, title: str, read: str, amount: Callable[[dict[str, Any]], float], results: tuple[dict[str, Any], ...]
) -> str:
    """Timed runs, each with its command, the time before its clock started, and the bound of data it was trained on."""
    memorised = any("seen" in r for r in results)
    columns = ["recipe", "training, s", "compilation, s", "parameters", read, title, "± masks alone", "seed"]
    columns += ["on training data"] * memorised
    lines = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    ordered = sorted(results, key=lambda r: (r["budget_s"], -r["result"][name]["mean"]))
    for r in ordered:
        done = amount(r)
        cells = [
            r["about"],
            f"{r['training_s']:.0f}",
            f"{r['compile_s']:.0f}",
            f"{r['parameters'] / 1e6:.0f} M",
            f"{done:,.{0 if done >= 100 else 2}f}",
            with_error(r["result"][name]),
            f"{r['result'][name]['monte_carlo']:.3f}",
            str(r["seed"]),
        ]
        cells += [with_error(r["seen"][name]) if "seen" in r else "–"] * memorised
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, "", *(source(r) for r in ordered)])


def text_steps(result: dict[str, Any]) -> str:
    """Bounds on held-out text by number of steps; continuous time comes last."""
    bounds = sorted(result["held_out"], key=lambda b: b["steps"] or float("inf"))
    lines = [
        "| T | " + " | ".join(f"{b['steps']:,}" if b["steps"] else "∞" for b in bounds) + " |",
        "|---" * (1 + len(bounds)) + "|",
        "| bits per token | " + " | ".join(with_error(b["bits_per_token"]) for b in bounds) + " |",
        "| perplexity | " + " | ".join(_perplexity(b) for b in bounds) + " |",
    ]
    return "\n".join([*lines, "", f"Perplexities with 95 % intervals. {source(result)}"])


def text_sets(result: dict[str, Any], counts: dict[str, Any]) -> str:
    """One row per set, next to n-gram models, the held-out part of the training text first; then the questions."""
    (own,) = (b for b in result["held_out"] if b["steps"] is None)
    lines = ["| text | tokens | perplexity | bits per token | best n-gram | unigrams |", "|---" * 6 + "|"]
    for name, found in (("held out", own), *((f["set"], f) for f in result["zero_shot"])):
        orders = counts["sets"][name]
        best = min(orders, key=lambda n: n["mean"])
        lines.append(
            f"| {name} | {found['tokens']:,} | {_perplexity(found)} | {with_error(found['bits_per_token'])} "
            f"| {with_error(best)} (n = {best['order']}) | {with_error(orders[0])} |"
        )
    asked = result["questions"]
    rates = [share(asked[f"accuracy{by}"], asked[f"error{by}"]) for by in ("", "_per_byte")]
    note = f"{asked['questions']:,} questions: {rates[0]} answered correctly, {rates[1]} by likelihood per byte."
    return "\n".join([*lines, "", note, "", source(result), source(counts)])


def _perplexity(found: dict[str, Any]) -> str:
    """With its interval."""
    value, low, high = (found["perplexity"][name] for name in ("value", "low", "high"))
    return f"{value:.2f} ({low:.2f}–{high:.2f})"


def other_data(*results: dict[str, Any]) -> str:
    """One row per data set, and one for each part of it that has its own figure."""
    lines = [
        "| data, test | bits per token | best n-gram | unigrams | parameters | steps × batch | training, s |",
        "|---" * 7 + "|",
    ]
    for r in results:
        how = f"{r['parameters'] / 1e6:.1f} M | {r['steps']:,} × {r['batch_size']:,} | {r['training_s']:.0f}"
        for name, group in r["groups"].items():
            best = min(group["n_grams"], key=lambda n: n["mean"])
            lines.append(
                f"| {r['data']}{'' if name == 'all' else f', {name}'}: {group['tokens']:,} {r['unit']}s "
                f"| {with_error(group['bits_per_token'])} | {with_error(best)} (n = {best['order']}) "
                f"| {with_error(group['n_grams'][0])} | {how if name == 'all' else ' | | '} |"
            )
    return "\n".join([*lines, "", *(source(r) for r in results)])
