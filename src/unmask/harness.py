"""EleutherAI's lm-evaluation-harness with the model of a run, registered as `unmask`. Needs the extra `harness`.

    python -m unmask.harness runs/log --include tasks --tasks mine

Likelihoods are lower bounds: the negative NELBO of the requested part given the rest, by stratified exact-k. A value
depends only on the seed and the request, and all continuations use the same random numbers.
"""

import json
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import torch
import tyro
from torch import Tensor

from . import extend
from .evaluation.continuation import Row, by_length, cost, found_greedily, ids, windows
from .files import atomic_write, check_files
from .mistakes import extra, require
from .run import Model, Sampling, load
from .sampling import Predictor

if TYPE_CHECKING:
    from lm_eval.api.instance import Instance
    from lm_eval.api.model import LM
    from lm_eval.api.registry import register_model
else:
    LM = extra("lm_eval.api.model", "harness", "the evaluation harness").LM
    register_model = extra("lm_eval.api.registry", "harness", "the evaluation harness").register_model

_KEPT = ("results", "groups", "versions", "n-shot", "n-samples", "higher_is_better", "config", "lm_eval_version")
"""The parts of the harness's results that are written."""


@register_model("unmask")
class HarnessModel(LM):  # type: ignore[misc]  # the harness has no types
    """A model of running text, for the harness."""

    def __init__(
        self,
        path: str | Path,
        *,
        draws: int = 32,
        repeats: int = 2,
        seed: int = 0,
        sampler: str = "ancestral",
        steps: int = 256,
        temperature: float | None = None,
        batch_size: int = 64,
        max_gen_toks: int = 256,
        device: str | None = None,
    ):
        """`model_args` of the harness.

        path: the folder of the run
        draws, repeats: masks of a likelihood spread over the time axis, and the number of such groups (at least 2)
        sampler, steps: how to generate text; see `unmask samplers`
        temperature: for generated text; None: as the task requests, or 0
        batch_size: rows in one network call; a likelihood takes `draws` of them
        max_gen_toks: number of tokens to generate if the task does not say
        """
        super().__init__()
        self.model: Model = load(str(path), device=device)
        _check(self.model, batch_size)
        self.model.check_continuations()
        self.draws, self.repeats, self.seed, self.batch_size = draws, repeats, seed, int(batch_size)
        self.temperature, self.max_gen_toks = temperature, max_gen_toks
        self.sampling = partial(Sampling, sampler=sampler, steps=steps, seed=seed, batch_size=self.batch_size)
        self.estimator = self.model.estimator()
        self.length = self.model.facts.shape[0]

    @property
    def device(self) -> torch.device:
        return self.model.device

    def loglikelihood(self, requests: "Sequence[Instance]", disable_tqdm: bool = False) -> list[tuple[float, bool]]:
        """(−NELBO of the continuation, whether greedy decoding by confidence gives it) for each request.

        Only the continuation is masked. The context is truncated on the left if both do not fit; a continuation longer
        than the model's rows is scored row by row. Trailing spaces of the context count as part of the continuation.
        """
        parts = [windows(*self._tokens(*request.args), self.length) for request in requests]
        nats = self._nats(parts, disable_tqdm)
        right = self._greedy(parts, disable_tqdm)
        return [(-sum(n), all(r)) for n, r in zip(nats, right, strict=True)]

    def loglikelihood_rolling(self, requests: "Sequence[Instance]", disable_tqdm: bool = False) -> list[float]:
        """−NELBO of each text, summed over rows of the model's length: a lower bound on its log-likelihood.

        Each token is scored once. The last row is as long as the others, and the tokens it repeats are visible.
        """
        parts = [windows(*self._tokens("", request.args[0]), self.length) for request in requests]
        return [-sum(nats) for nats in self._nats(parts, disable_tqdm)]

    def generate_until(self, requests: "Sequence[Instance]", disable_tqdm: bool = False) -> list[str]:
        """The text that the sampler generates after each prompt, up to the first stop string or end of text.

        The prompt is truncated on the left to make room, but never for more than half a row; longer texts are filled
        block by block. Request i draws from stream i.
        """
        del disable_tqdm
        result: dict[int, str] = {}
        wanted = [_Wanted(self, *request.args) for request in requests]
        for temperature in dict.fromkeys(one.temperature for one in wanted):
            which = [i for i, one in enumerate(wanted) if one.temperature == temperature]
            filled = self.model.fill_prompts([wanted[i].row for i in which], self.sampling(temperature=temperature))
            result |= {i: wanted[i].cut(row) for i, row in zip(which, filled, strict=True)}
        return [result[i] for i in range(len(wanted))]

    def _tokens(self, context: str, continuation: str) -> tuple[Tensor, Tensor]:
        kept = context.rstrip()
        return ids(kept, self.model.vocabulary), ids(context[len(kept) :] + continuation, self.model.vocabulary)

    def _nats(self, parts: list[list[Row]], quiet: bool) -> list[list[float]]:
        how = {"draws": self.draws, "repeats": self.repeats, "seed": self.seed}
        return _of_parts(
            parts,
            max(1, self.batch_size // self.draws),
            lambda rows: cost(self.model.network, rows, self.estimator, **how),
            _bar("likelihoods", quiet),
        )

    def _greedy(self, parts: list[list[Row]], quiet: bool) -> list[list[float]]:
        process = self.model.process
        predict = Predictor(self.model.network, process.mask_id, cache=False)
        return _of_parts(
            parts,
            self.batch_size,
            lambda rows: found_greedily(predict, process, rows, self.device),
            _bar("greedy decoding", quiet),
        )


def _check(model: Model, batch_size: object) -> None:
    require(
        not model.fixed_shape and len(model.facts.shape) == 1,
        "the harness needs a model of running text",
        got="a model of rows of a fixed shape",
        allowed="text packed end to end",
        do="train on text",
    )
    require(
        str(batch_size).isdecimal() and int(str(batch_size)) >= 1,
        "batch_size is not a positive number",
        got=batch_size,
        allowed="an integer >= 1",
        do="give the number of rows that fit",
    )


def _of_parts(
    parts: list[list[Row]], most: int, values: Callable[[list[Row]], Tensor], show: Callable[[Any], Any]
) -> list[list[float]]:
    """A value for each row of each part; rows of one length are computed together, across parts."""
    found = iter(by_length([row for part in parts for row in part], most, values, show))
    return [[next(found) for _ in part] for part in parts]


def _bar(what: str, quiet: bool) -> Callable[[Any], Any]:
    return partial(extra("tqdm", "harness", "a progress bar").tqdm, desc=what, disable=quiet)


class _Wanted:
    """A text to generate."""

    def __init__(self, owner: HarnessModel, prompt: str, asked: dict[str, Any]):
        self.vocabulary, mask_id = owner.model.vocabulary, owner.model.process.mask_id
        until = asked.get("until") or []
        self.until = [until] if isinstance(until, str) else [stop for stop in until if stop]
        count = int(asked.get("max_gen_toks") or owner.max_gen_toks)
        room = max(owner.length - count, owner.length // 2)
        given = ids(prompt, self.vocabulary)
        self.given = given[max(0, len(given) - room) :]
        self.row = torch.cat([self.given, torch.full((count,), mask_id)])
        own = asked.get("temperature", 0.0) if asked.get("do_sample", True) else 0.0
        self.temperature = float(own if owner.temperature is None else owner.temperature)

    def cut(self, row: Any) -> str:
        """The text after the prompt, up to its end."""
        tokens = row[len(self.given) :].tolist()
        end = self.vocabulary.eos_id
        text = self.vocabulary.decode(tokens[: tokens.index(end)] if end in tokens else tokens)
        return text[: min([len(text), *(text.find(stop) for stop in self.until if stop in text)])]


# ---------------------------------------------------------------------------------------- command line


def evaluate(
    run: Annotated[tyro.conf.Positional[Path], tyro.conf.arg(metavar="RUN")],
    *,
    tasks: Annotated[str, tyro.conf.arg(metavar="NAME,NAME")],
    include: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None,
    limit: Annotated[int | None, tyro.conf.arg(metavar="N")] = None,
    args: Annotated[str, tyro.conf.arg(metavar="KEY=VALUE,…")] = "",
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE")] = None,
    use: Annotated[tuple[str, ...], tyro.conf.arg(metavar="MODULE …")] = (),
) -> dict[str, Any]:
    """Run tasks of lm-evaluation-harness on a model.

    Nothing is downloaded from the hub unless HF_HUB_OFFLINE=0 is set.

    Args:
        run: Folder of a run.
        tasks: Names of the tasks to run.
        include: A folder with task files (YAML).
        limit: Use only the first N documents of each task.
        args: Settings of the model, for example draws=64,steps=32,temperature=0.7.
        out: Write the results to a JSON file.
        use: Modules or files with your own parts that the model was trained with.
    """
    check_files(out)
    for module in use:
        extend.use(module)
    os.environ.setdefault("HF_HUB_OFFLINE", "1")  # before the hub's client is imported
    from lm_eval.evaluator import simple_evaluate
    from lm_eval.utils import simple_parse_args_string

    names = tasks.split(",")
    found: dict[str, Any] = simple_evaluate(
        model="unmask",
        model_args={"path": str(run), **simple_parse_args_string(args)},
        tasks=names,
        limit=limit,
        task_manager=_manager(names, include),
        log_samples=False,
    )
    kept = {name: found[name] for name in _KEPT if name in found}
    if out is not None:
        with atomic_write(out, "w") as file:
            json.dump(kept, file, indent=1, default=str)
    return kept


def _manager(names: list[str], include: Path | None) -> Any:
    """Read only the folder's tasks if they suffice: reading the harness's own takes seconds."""
    from lm_eval.tasks import TaskManager

    folder = None if include is None else str(include)
    manager = TaskManager(include_path=folder, include_defaults=False)
    if not set(names) <= set(manager.all_tasks):
        manager = TaskManager(include_path=folder)
    unknown = [name for name in names if not manager.match_tasks([name]) and not Path(name).is_file()]
    require(
        not unknown,
        "unknown task",
        got=", ".join(unknown),
        allowed="a task of the harness or of the included folder",
        do="check the name, or include the folder of its file",
    )
    return manager


def table(found: dict[str, Any]) -> Iterator[str]:
    """A line for each task and measure, with its standard error."""
    for task, values in found["results"].items():
        for name, value in values.items():
            measure, _, filtered = name.partition(",")
            if not filtered or measure.endswith("_stderr"):
                continue
            error = values.get(f"{measure}_stderr,{filtered}")
            error = f" ± {error:.4f}" if isinstance(error, float) else ""
            measure = measure if filtered == "none" else f"{measure} ({filtered})"
            yield f"{task:24} {measure:24} {value:.4f}{error}"


def main(argv: Sequence[str] | None = None) -> int:
    """`python -m unmask.harness`; returns the exit code."""
    try:
        print("\n".join(table(tyro.cli(evaluate, prog="python -m unmask.harness", args=argv))))
        return 0
    except (ValueError, OSError) as mistake:
        print(mistake, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
