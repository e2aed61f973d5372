"""`unmask eval` and `unmask compare`: run, show, write."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from unmask.evaluation import Difference, bits, compare, perplexity
from unmask.run import Run, load
from unmask.run.evaluate import Evaluation, Result, evaluate
from unmask.run.zero_shot import choices


def run(folder: Path, wanted: Evaluation, as_json: bool) -> int:
    """Measure one model."""
    console = Console(quiet=as_json)
    result = _measured(folder, wanted, console)
    if as_json:
        print(json.dumps(result.document()))
        return 0
    _show(result, console)
    console.print(f"wrote {folder / 'evals' / result.name}.json", highlight=False, soft_wrap=True)
    return 0


def run_choices(folder: Path, file: Path, whole: bool, wanted: Evaluation, as_json: bool) -> int:
    """Answer the questions of a file."""
    console = Console(quiet=as_json)
    model = load(folder, average=wanted.average)
    start = time.perf_counter()
    with bar(console, file.name) as progress:
        found = choices(model, file, wanted, whole=whole, draws=32 if whole else 16, progress=progress)
    each = (time.perf_counter() - start) / found.questions
    if as_json:
        print(json.dumps(asdict(found) | {"seconds_per_question": round(each, 4), "whole": whole}))
        return 0
    console.print(
        f"{found.questions:,} questions: accuracy {found.accuracy:.1%} ± {found.error:.1%}, per byte "
        f"{found.accuracy_per_byte:.1%} ± {found.error_per_byte:.1%}; {each:.2f} s each",
        highlight=False,
        soft_wrap=True,
    )
    return 0


@contextmanager
def bar(console: Console, name: str) -> Iterator[Callable[[int, int], None]]:
    """A bar in a terminal, nothing elsewhere."""
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(name)
        yield lambda done, total: progress.update(task, completed=done, total=total)


def run_comparison(first: Path, second: Path, wanted: Evaluation, as_json: bool) -> int:
    """Measure two models alike and take the difference."""
    console = Console(quiet=as_json)
    results = [_measured(folder, wanted, console) for folder in (first, second)]
    difference = compare(results[0].scores, results[1].scores)
    if as_json:
        documents = [result.document() for result in results]
        print(json.dumps({"models": documents, "difference_bits_per_token": asdict(difference)}))
        return 0
    for folder, result in zip((first, second), results, strict=True):
        figure = bits(result.per_token)
        console.print(
            f"{folder}: {figure.mean:.4f} ± {figure.error:.4f} bits per token", highlight=False, soft_wrap=True
        )
    console.print(verdict(difference, str(first), str(second)), highlight=False, soft_wrap=True)
    return 0


def verdict(difference: Difference, first: str, second: str) -> str:
    """In one line; a claim only where the interval does not hold zero."""
    apart = f"on their own: ± {difference.unpaired_error:.4f}"
    size = f"{difference.mean:+.4f} ± {difference.error:.4f} bits per token ({apart})"
    if abs(difference.mean) <= 1.96 * difference.error:
        return f"difference {size}: not told apart"
    return f"difference {size}: {second if difference.mean > 0 else first} is better"


def _measured(folder: Path, wanted: Evaluation, console: Console) -> Result:
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task(f"{folder}: {wanted.split}")
        return evaluate(
            Run.open(folder), wanted, lambda done, total: progress.update(task, completed=done, total=total)
        )


def _show(result: Result, console: Console) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for column in ("", "mean", "± error", "± Monte Carlo only"):
        table.add_column(column, justify="left" if not column else "right")
    units = {"token": result.per_token, "character": result.per_character, "byte": result.per_byte}
    for name, figure in units.items():
        if figure is not None:
            shown = bits(figure)
            table.add_row(f"bits per {name}", f"{shown.mean:.4f}", f"{shown.error:.4f}", f"{shown.monte_carlo:.4f}")
    value, low, high = perplexity(result.per_token)
    table.add_row("perplexity per token", f"{value:.3f}", f"{low:.3f}–{high:.3f}", "")
    console.print(table)
    kind = "continuous time" if result.settings["steps"] is None else f"{result.settings['steps']} steps"
    console.print(
        f"{len(result.scores.nats):,} sequences, {int(result.scores.tokens.sum()):,} tokens, "
        f"{result.scores.calls:,} network calls; {kind}, {result.settings['estimator']}",
        highlight=False,
    )
