"""`unmask eval` and `unmask compare`: run, show and write."""

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from rich.console import Console
from rich.table import Table

from unmask.core.device import best_device
from unmask.evaluation import Difference, bits, compare, perplexity
from unmask.evaluation.intervals import decimal, interval, student95
from unmask.mistakes import require
from unmask.run import ModelFolder, find_model, report
from unmask.run.evaluate import Evaluation, Result, evaluate
from unmask.run.folder import EVALS
from unmask.run.orders import order_interval
from unmask.run.zero_shot import choices
from unmask.training.world import ALONE, World, from_environment, joined

from .machine import print_json
from .progress import bar, keeping


def run(model: str, wanted: Sequence[Evaluation], as_json: bool) -> int:
    """Measure one model, in continuous time and with the requested numbers of steps."""
    with joined(best_device()) as world:
        console = Console(quiet=as_json or not world.first)
        found = find_model(model).pinned(world)
        backwards = [_measured(model, found, one, console, world) for one in reversed(wanted)]
        results = backwards[::-1]  # steps first: what a model cannot be measured with is refused before any work
        if not world.first:
            return 0
        place = found.results / EVALS
        name = results[0].name if len(results) == 1 else f"{results[0].name}-steps"
        written = [place / f"{result.name}.json" for result in results] + report.write(results, place, name)
    if as_json:
        documents = [result.document() for result in results]
        print_json(documents[0] if len(results) == 1 else documents)
        return 0
    _show(results, console)
    console.print("wrote " + ", ".join(map(str, written)), highlight=False, soft_wrap=True)
    return 0


def require_one_rank() -> None:
    """Fail with several ranks: only the sequences of a split are divided among them."""
    ranks = from_environment().size
    require(
        ranks == 1, "only a split is divided among ranks", got=ranks, allowed="1 here", do="start it without torchrun"
    )


def only_steps(steps: Sequence[int]) -> int | None:
    """The number of steps for a text, which has one result."""
    require(len(steps) < 2, "too many --steps for --text", got=len(steps), allowed="0 or 1", do="give one at a time")
    return steps[0] if steps else None


def run_orders(model: str, wanted: Evaluation, orders: int, as_json: bool) -> int:
    """Bracket the likelihood between two bounds."""
    console = Console(quiet=as_json)
    with bar(console, f"{model}: {wanted.split}") as progress:
        found = order_interval(find_model(model), wanted, orders, progress)
    if as_json:
        print_json(found)
        return 0
    rows = {
        "bound": "bound, mean over orders",
        "tighter_bound": f"bound from {orders} orders together",
        "other_side": "bound from the other side",
        "left_to_right": "exact, from left to right",
    }
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    table.add_column("bits per token")
    for column in ("mean", "± error"):
        table.add_column(column, justify="right")
    for key, title in rows.items():
        mean, error = found[key]["mean"], found[key]["error"]  # with few orders the other side falls below zero
        table.add_row(title, *((f"{mean:.4f}", decimal(error, 4)) if mean > 0 else ("uninformative", "")))
    console.print(table)
    console.print(f"wrote {find_model(model).results / EVALS / found['name']}.json", highlight=False, soft_wrap=True)
    return 0


def run_choices(model: str, file: Path, whole: bool, wanted: Evaluation, draws: int, as_json: bool) -> int:
    """Answer the questions of a file."""
    console = Console(quiet=as_json)
    start = time.perf_counter()
    with bar(console, file.name) as progress:
        path, found = choices(find_model(model), file, wanted, whole=whole, draws=draws, progress=progress)
    each = (time.perf_counter() - start) / found.questions
    if as_json:
        print_json(asdict(found) | {"seconds_per_question": round(each, 4), "whole": whole})
        return 0
    shares = [f"accuracy {found.accuracy:.1%} ± {found.error:.1%}"]
    if found.accuracy_per_byte is not None:
        shares.append(f"per byte {found.accuracy_per_byte:.1%} ± {found.error_per_byte:.1%}")
    console.print(
        f"{found.questions:,} questions: {', '.join(shares)}; {each:.2f} s each",
        highlight=False,
        soft_wrap=True,
    )
    console.print(f"saved in {path}", highlight=False, soft_wrap=True)
    return 0


def run_comparison(first: str, second: str, wanted: Evaluation, as_json: bool) -> int:
    """Measure two models in the same way and take the difference."""
    console = Console(quiet=as_json)
    found = [(name, find_model(name)) for name in (first, second)]
    own = [model.own_data for _, model in found]
    if wanted.data is None and None in own:  # an exported model is measured on the data of the other
        wanted = replace(wanted, data=own[0] or own[1])
    results = [_measured(name, model, wanted, console) for name, model in found]
    difference = compare(results[0].scores, results[1].scores)
    if as_json:
        documents = [result.document() for result in results]
        print_json({"models": documents, "difference_bits_per_token": asdict(difference)})
        return 0
    for model, result in zip((first, second), results, strict=True):
        figure = bits(result.per_token)
        console.print(
            f"{model}: {figure.mean:.4f} ± {decimal(figure.error, 4)} bits per token", highlight=False, soft_wrap=True
        )
    console.print(verdict(difference, first, second), highlight=False, soft_wrap=True)
    return 0


def verdict(difference: Difference, first: str, second: str) -> str:
    """The result in one line; a model is called better only if the interval excludes zero."""
    apart = f"unpaired: ± {decimal(difference.unpaired_error, 4)}"
    size = f"{difference.mean:+.4f} ± {decimal(difference.error, 4)} bits per token ({apart})"
    if not math.isfinite(difference.error):
        return f"difference {size}: one sequence has no error; measure more"
    if abs(difference.mean) > student95(difference.freedom) * difference.error:
        return f"difference {size}: {second if difference.mean > 0 else first} is better"
    return f"difference {size}: not significant"


def _measured(name: str, model: ModelFolder, wanted: Evaluation, console: Console, world: World = ALONE) -> Result:
    what = "" if wanted.steps is None else f", {wanted.steps} steps"
    kept = f"finished parts are kept in {model.results / EVALS}"
    with keeping(kept), bar(console, f"{name}: {wanted.split}{what}") as progress:
        return evaluate(model, wanted, progress, world)


def _show(results: Sequence[Result], console: Console) -> None:
    table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
    for column in ("", "mean", "± error", "± Monte Carlo only"):
        table.add_column(column, justify="left" if not column else "right")
    for result in results:
        if len(results) > 1:
            table.add_row(f"[bold]{report.kind(result)}[/]")
        for unit, shown in result.bits().items():
            errors = (decimal(error, 4) for error in (shown.error, shown.monte_carlo))
            table.add_row(f"bits per {unit}", f"{shown.mean:.4f}", *errors)
        value, low, high = perplexity(result.per_token)
        table.add_row("perplexity per token", f"{value:.3f}", interval(low, high, 3), "")
    console.print(table)
    kinds = ", ".join(map(report.kind, results))
    console.print(
        f"{report.amount(*results)} network calls; {kinds}, {results[0].settings['estimator']}", highlight=False
    )
