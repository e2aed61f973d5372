"""Zero-shot sets by name: from files, from the hub, kept, and all together."""

import gzip
import json
import lzma
import sys
from typing import get_args

import pytest

from tests.commands import command
from unmask.cli.evaluation_commands import Detokeniser
from unmask.cli.main import main
from unmask.evaluation import DETOKENISERS, SETS, find_detokeniser, find_text
from unmask.evaluation.sets import HubText, TextFile

RECORDS = {
    "lambada": ({"text": "he said, “ go on .” \n"}, '\nhe said, " go on ."'),
    "wikitext2": ({"text": " = Robert <unk> = \n"}, " = Robert <unk> =\n"),
    "wikitext103": ({"text": " a guest @-@ starring role , 2000 \n"}, " a guest-starring role, 2000\n"),
    "ptb": ({"sentence": "mr. <unk> 's N shares"}, "mr. ?'s 1 shares"),
    "lm1b": ({"text": "The cat 's $ 5 mat , he said ."}, "The cat's $5 mat, he said."),
    "ag_news": ({"text": "Oil & Gas , up #36;5", "label": 2}, "Oil & Gas , up #36;5"),
    "arxiv": (
        {"article": "the rate ( @xmath0 ) grows .\n so , what ?", "abstract": "x", "section_names": "y"},
        "the rate (@xmath0) grows .\nso, what?",
    ),
    "pubmed": ({"article": "a dose of 5 % , twice", "abstract": "x", "section_names": "y"}, "a dose of 5 %, twice"),
}


def of(name, count=40):
    return [RECORDS[name][0]] * count


def json_lines(records):
    return "".join(json.dumps(record) + "\n" for record in records).encode()


@pytest.fixture
def hub(monkeypatch):
    """`datasets` itself without the network: real data sets of our records, and the calls that were made."""
    import datasets

    calls = []

    def load_dataset(path, **how):
        calls.append((path, how))
        known = {(place.hub, place.configuration): name for name, place in SETS.items()}
        configuration = how.get("name") or how["data_files"][how["split"]].split("/")[0]
        if configuration == "pubmed":
            raise ConnectionError(f"Couldn't reach {path!r} on the Hub\n(and more)")
        return datasets.Dataset.from_list(of(known[path, configuration]))

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    return calls


@pytest.mark.parametrize("name", SETS)
def test_a_record_becomes_plain_text(name):
    record, plain = RECORDS[name]
    assert find_detokeniser(SETS[name].detokeniser)(SETS[name].form.row(record)) == plain
    with pytest.raises(ValueError, match="a record has no field"):
        SETS[name].form.row({"other": 1})


def test_the_help_names_them_all(capsys):
    with pytest.raises(SystemExit):
        main(["eval", "--help"])
    said = capsys.readouterr().out
    assert all(name in said for name in [*SETS, *DETOKENISERS])
    assert get_args(Detokeniser) == tuple(DETOKENISERS)


def test_lines_are_as_the_hub_has_them(tmp_path):
    """Wikitext's rows keep their ends and blank ones are empty; Penn's are stripped; other files stay as they are."""
    text = " \n = A = \n b \n"
    for name in ("wikitext2", "ptb", "other"):
        (tmp_path / f"{name}.txt").write_text(text)
    assert list(find_text("wikitext2", tmp_path).rows()) == ["", " = A = \n", " b \n"]
    assert list(find_text("ptb", tmp_path).rows()) == ["", "= A =", "b"]
    assert list(find_text(str(tmp_path / "other.txt")).rows()) == [" \n", " = A = \n", " b \n"]


def test_files_of_every_suffix(tmp_path):
    import datasets

    folders = {ending: tmp_path / ending for ending in (".txt", ".txt.xz", ".jsonl", ".jsonl.gz", ".parquet")}
    for folder in folders.values():
        folder.mkdir()
    row, lines = RECORDS["ptb"][0]["sentence"], json_lines(of("ptb", 3))
    (folders[".txt"] / "ptb.txt").write_text(f" {row} \n" * 3)
    (folders[".txt.xz"] / "ptb.txt.xz").write_bytes(lzma.compress(f" {row} \n".encode() * 3))
    (folders[".jsonl"] / "ptb.jsonl").write_bytes(lines + b"\n")
    (folders[".jsonl.gz"] / "ptb.jsonl.gz").write_bytes(gzip.compress(lines))
    datasets.Dataset.from_list(of("ptb", 3)).to_parquet(folders[".parquet"] / "ptb.parquet")
    for ending, folder in folders.items():
        found = find_text("ptb", folder)
        assert isinstance(found, TextFile)
        assert found.origin()["file"] == f"ptb{ending}"
        assert (list(found.rows()), found.detokeniser) == ([row] * 3, "ptb")
    assert isinstance(find_text("lambada", tmp_path), HubText)  # the folder has none


def test_the_hub_is_asked_for_one_split(hub):
    for name, place in SETS.items():
        if name != "pubmed":
            assert list(find_text(name).rows()) == [place.form.row(record) for record in of(name)]
    asked = {path: how for path, how in hub if not path.startswith("Salesforce")}
    plain = {"streaming": False, "split": "test", "name": "default"}
    assert asked["EleutherAI/lambada_openai"] == asked["dvruette/lm1b"] == asked["fancyzhx/ag_news"] == plain
    papers = asked["armanc/scientific_papers"]
    assert papers["data_files"] == {"validation": "arxiv/validation/*.parquet"}
    assert papers["revision"] == "refs/convert/parquet"


def test_datasets_reads_what_we_ask_for(tmp_path, monkeypatch):
    """The arguments are right: the real `load_dataset`, on a folder in the format of the hub's Parquet copy."""
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    for split in ("train", "validation"):
        folder = tmp_path / "arxiv" / split
        folder.mkdir(parents=True)
        datasets.Dataset.from_list([{"article": split}] * 2).to_parquet(folder / "0000.parquet")
    how = SETS["arxiv"].location() | {"revision": None}
    found = datasets.load_dataset(str(tmp_path), streaming=False, **how)
    assert [SETS["arxiv"].form.row(record) for record in found] == ["validation"] * 2


def test_a_name_brings_its_detokeniser_and_is_kept(subwords, hub, capsys):
    words = ("eval", subwords, "--text", "ptb", "--json")
    code, out, _ = command(capsys, *words)
    first = json.loads(out)
    assert code == 0
    assert (first["set"], first["detokeniser"], first["protocol"]) == ("ptb", "ptb", "sedd")
    assert (first["hub"], first["split"]) == ("ptb-text-only/ptb_text_only", "validation")
    assert {"estimator", "draws", "repeats", "steps", "average", "seed", "at_most", "checkpoint"} <= set(first)
    (path,) = (subwords / "evals").glob("zero-shot-ptb-sedd-*.json")
    before, asked = path.stat().st_mtime_ns, len(hub)
    assert json.loads(path.read_text()) == first
    _, out, _ = command(capsys, *words)
    assert json.loads(out) == first
    assert (path.stat().st_mtime_ns, len(hub)) == (before, asked)  # not computed, not fetched
    for other in (["--seed", "1"], ["--protocol", "mdlm"], ["--detokeniser", "none"], ["--sequences", "2"]):
        command(capsys, *words, *other)
    assert len(list((subwords / "evals").glob("zero-shot-ptb-*.json"))) == 5


def test_another_file_is_another_result(subwords, tmp_path, capsys):
    path = tmp_path / "lm1b.txt"
    found = []
    for text in ("the cat sat , he said .\n", "the dog sat , he said .\n"):
        path.write_text(text * 40)
        _, out, _ = command(capsys, "eval", subwords, "--text", "lm1b", "--sets", tmp_path, "--json")
        found.append(json.loads(out))
    assert [one["file"] for one in found] == ["lm1b.txt"] * 2
    assert found[0]["blake2b"] != found[1]["blake2b"]
    assert found[0]["perplexity"] != found[1]["perplexity"]


def test_all_sets_that_can_be_had(subwords, hub, tmp_path, capsys):
    """One is in a folder, one is empty, one cannot be reached; the others come from the hub."""
    (tmp_path / "arxiv.jsonl").write_bytes(json_lines(of("arxiv")))
    (tmp_path / "lm1b.txt").write_text("")
    words = ("eval", subwords, "--text", "all", "--sets", tmp_path, "--seed", "7")
    code, out, err = command(capsys, *words)
    assert (code, err) == (0, "")
    for name in set(SETS) - {"lm1b", "pubmed"}:
        assert f"\n{name} " in out
    assert "\nlm1b: the set is too short: got 0 sequences" in f"\n{out}"
    (line,) = (line for line in out.splitlines() if line.startswith("pubmed"))
    assert "could not be fetched from the hub: got Couldn't reach" in line
    assert "pass --sets DIR" in line
    assert "6 of 8 sets, protocol sedd" in out
    hub.clear()
    _, out, _ = command(capsys, *words, "--json")
    found = json.loads(out)
    assert [one["set"] for one in found["sets"]] == [name for name in SETS if name not in found["missing"]]
    assert sorted(found["missing"]) == ["lm1b", "pubmed"]
    assert len(hub) == 1  # only the one that is still missing


def test_an_interrupted_suite_keeps_what_is_done(subwords, hub, capsys, monkeypatch):
    import datasets

    good = datasets.load_dataset

    def stopped(path, **how):
        if path == SETS["ptb"].hub:
            raise KeyboardInterrupt
        return good(path, **how)

    words = ("eval", subwords, "--text", "all", "--seed", "8")
    monkeypatch.setattr(datasets, "load_dataset", stopped)
    assert command(capsys, *words)[0] == 130
    assert len(hub) == 2  # lambada and wikitext2
    monkeypatch.setattr(datasets, "load_dataset", good)
    assert command(capsys, *words)[0] == 0
    assert len(hub) == 2 + 6


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["lambda"], "no such text: got lambda, allowed: a file, all, or one of lambada, wikitext2"),
        (["ptb", "--sets", "nowhere"], "no such folder of sets: got nowhere"),
        (["all", "--sets", "nowhere"], "no such folder of sets: got nowhere"),
        (["pubmed"], "the set pubmed could not be fetched from the hub"),
        (["lm1b", "--sets", "FOLDER"], "the set is too short: got 0 sequences"),
        (["ptb", "--sets", "FOLDER"], "a record has no field 'sentence': got text, allowed: one named sentence"),
        (["ag_news", "--sets", "FOLDER"], "is not a JSON object: got [1]"),
        (["cut.txt.gz"], "cut.txt.gz is damaged"),
        (["latin.txt"], "latin.txt is not UTF-8: got byte 0xe9"),
        (["wrong.parquet"], "wrong.parquet is not a Parquet file"),
        (["ptb", "--detokeniser", "gpt"], "gpt"),
    ],
)
def test_bad_input_is_one_line(subwords, hub, tmp_path, words, message, capsys):
    del hub
    (tmp_path / "lm1b.txt").write_text("")
    (tmp_path / "ptb.jsonl").write_text('{"text": "a"}\n')
    (tmp_path / "ag_news.jsonl").write_text("[1]\n")
    (tmp_path / "cut.txt.gz").write_bytes(gzip.compress(b"a cat sat\n" * 99)[:-9])
    (tmp_path / "latin.txt").write_bytes(b"caf\xe9\n")
    (tmp_path / "wrong.parquet").write_bytes(b"PAR")
    there = {path.name: path for path in tmp_path.iterdir()} | {"FOLDER": tmp_path}
    words = [there.get(word, word) for word in words]
    code, out, err = command(capsys, "eval", subwords, "--text", *words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_without_the_extra(subwords, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "datasets", None)
    code, out, err = command(capsys, "eval", subwords, "--text", "ag_news", "--seed", "9")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "without a file of it in --sets DIR, needs the package datasets" in err
    code, out, err = command(capsys, "eval", subwords, "--text", "all", "--seed", "9")
    assert (code, out.count("\n"), err.count("\n")) == (2, len(SETS), 1)
    assert "no set could be measured: got lambada, wikitext2" in err
