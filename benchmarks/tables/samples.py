"""Tables on the quality of samples."""

from typing import Any

from unmask.evaluation.sample_metrics import Value
from unmask.run.frontier import format_value

from .form import share, source, with_error


def other_samples(valid: dict[str, Any], proteins: dict[str, Any], chorales: dict[str, Any]) -> str:
    """The metrics of the samples, each next to a reference."""
    shares = [f"{name} {share(valid[name]['value'], valid[name]['error'])}" for name in ("valid", "unique", "novel")]
    judged = proteins["sampled"]["judged"]
    notes = {name: chorales["sampled"][name] for name in ("as_bach", "as_another")}
    same = {name: share(found["mean"], found["error"]) for name, found in notes.items()}
    lines = [
        "| samples | figure | for comparison |",
        "|---" * 3 + "|",
        f"| {valid['valid']['of']:,} molecules | {', '.join(shares)} | |",
        *(
            f"| {proteins['sampled']['samples']:,} proteins: {name} | {format_value(Value(**judged['samples'][name]))} "
            f"| held out: {format_value(Value(**judged['held out'][name]))} |"
            for name in judged["samples"]
        ),
        f"| {chorales['sampled']['samples']:,} harmonised melodies: notes that are Bach's own | {same['as_bach']} "
        f"| another chorale's: {same['as_another']} |",
    ]
    return "\n".join([*lines, "", *(source(r) for r in (valid, proteins, chorales))])


def grids(result: dict[str, Any]) -> str:
    """One row per combination of schedule and grid, with and without classes; one column per number of steps."""
    steps = list(dict.fromkeys(r["steps"] for r in result["rows"]))
    measures = (("frechet", "Fréchet distance", 2, 1.0), ("kernel", "kernel distance", 3, 1.0))
    lines = ["| | " + " | ".join(f"T = {count}" for count in steps) + " |", "|---" * (1 + len(steps)) + "|"]
    for key, title, digits, scale in (*measures, ("as_asked", "% read as requested", 1, 100.0)):
        for conditional in (False, True):
            found = [r for r in result["rows"] if r["conditional"] is conditional and key in r]
            for way in dict.fromkeys(r["way"] for r in found):
                cells = (with_error(r[key], digits, scale) for r in found if r["way"] == way)
                kind = "with class" if conditional else "no class"
                lines.append(f"| {title}, {kind}: {way} | " + " | ".join(cells) + " |")
    reader, floor = result["classifier"], result["floor"]
    note = (
        f"{result['samples']:,} samples of each. For as many training images: Fréchet distance "
        f"{with_error(floor['frechet'], 2)}, kernel distance {with_error(floor['kernel'])}. The "
        f"{reader['features']} features are those before the last layer of a classifier "
        f"({reader['parameters']:,} parameters, {reader['test_accuracy']:.2%} of the test set correct), centred, and "
        "scaled to variance 1."
    )
    return "\n".join([*lines, "", note, source(result)])


def infilling(result: dict[str, Any]) -> str:
    """One row per pattern, combination of schedule and grid, and number of steps."""
    lines = [
        "| hidden | schedule and grid | steps | network calls | conflict, bits per token "
        f"| {result['ngram_order']}-gram bits per token | % as in the text |",
        "|---" * 7 + "|",
    ]
    lines += [
        f"| {r['pattern']} | {r['way']} | {r['steps'] or ''} | {r['calls']:.1f} | {with_error(r['conflict'])} "
        f"| {with_error(r['ngram'], 2)} | {with_error(r['right'], 1, 100.0)} |"
        for r in result["rows"]
    ]
    lines += [
        f"| {name} | the text itself | | | | {with_error(figure, 2)} | |" for name, figure in result["text"].items()
    ]
    note = f"{result['sequences']:,} rows of {result['tokens']} tokens, half of them hidden."
    return "\n".join([*lines, "", f"{note} {source(result)}"])


def sampler_frontier(result: dict[str, Any]) -> str:
    """One row per sampler, option and number of steps, in the order of their network calls within a sampler.

    Samplers that gave identical samples share a row.
    """
    points = _merged(result["points"])
    names = list(dict.fromkeys(name for point in points for name in point["values"]))
    lines = ["| sampler | steps | network calls | " + " | ".join(names) + " |", "|---" * (3 + len(names)) + "|"]
    order = {name: i for i, name in enumerate(dict.fromkeys(p["sampler"] for p in points))}
    for p in sorted(points, key=lambda p: (order[p["sampler"]], p["calls"])):
        title = ", ".join([p["sampler"], *p["same"], *(f"{name} {value:g}" for name, value in p["options"].items())])
        cells = " | ".join(format_value(Value(**p["values"][name])) if name in p["values"] else "" for name in names)
        lines.append(f"| {title} | {p['steps'] or ''} | {p['calls']:.1f} | {cells} |")
    return "\n".join([*lines, "", f"{result['samples']} samples per row, 95 % intervals. {source(result)}"])


def _merged(points: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One point for each group with identical samples, with the names of the other samplers."""
    alike: dict[str, list[dict[str, Any]]] = {}
    for point in points:
        alike.setdefault(str((point["steps"], point["options"], point["calls"], point["values"])), []).append(point)
    return [first | {"same": [p["sampler"] for p in others]} for first, *others in alike.values()]
