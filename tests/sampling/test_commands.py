"""Sampling and infilling from a user's point of view: small trained models, real processes, real files."""

import json
import re
from dataclasses import replace

import numpy as np
import pytest
import torch

import unmask
from tests.commands import command, run
from tests.small_models import trained
from unmask.cli import progress
from unmask.cli.live import Watch
from unmask.data import Plan, Reading, prepare
from unmask.data.vocabulary import Bytes, Subwords
from unmask.networks import Conditioning
from unmask.run import Sampling, default_config, train
from unmask.run.prompt import parse
from unmask.sampling import MASKED, SAMPLERS, Frame
from unmask.sampling.samplers import POLYNOMIAL


def test_samples_learned_something(letters):
    """A capital follows its letter far more often than by chance, so the model and the sampler work."""
    texts = unmask.load(letters).sample(40, steps=64, seed=3)
    pairs = [text[i : i + 2] for text in texts for i in range(15) if text[i].islower()]
    assert sum(pair[1] == pair[0].upper() for pair in pairs) > 0.5 * len(pairs)  # 1 in 8 by chance


def test_infilling_uses_what_is_given(letters):
    """The gap after a letter is its capital, the gap before a capital its letter."""
    filled = unmask.load(letters).infill(["aAb[MASK:1]cC", "aA[MASK:1]BcC"], steps=4)
    assert filled == ["aAbBcC", "aAbBcC"]


def test_the_grid_is_the_one_that_fits_the_schedule(letters, tmp_path):
    """The default is cosine, also with learned exponents, which start at 1."""
    learned = trained(letters.parent / "data", tmp_path / "learned", method="genmd4", steps=1)
    for run_ in (letters, learned):
        model = unmask.load(run_)
        default, cosine, uniform = (model.sample(8, steps=4, grid=grid) for grid in (None, "cosine", "uniform"))
        assert default == cosine != uniform


def test_prompts_of_several_lengths_in_one_call(letters):
    model = unmask.load(letters)
    prompts = ["a[MASK:1]", "aA[MASK:4]dD", "[MASK:1]A", "bB___cC"]
    filled = model.infill(prompts, steps=8, seed=5)
    assert [len(text) for text in filled] == [2, 8, 2, 7]
    assert filled[1].startswith("aA")
    assert filled[1].endswith("dD")
    assert model.infill(prompts[:1], steps=8, seed=5) == filled[:1]  # the other prompts make no difference


def test_frames_leave_the_readers_precision_alone(letters):
    """On a CPU the network computes in float32, even if the caller uses autocast."""
    model = unmask.load(letters)
    x, how = model.blank(2, 0), Sampling(steps=4)
    plain = [frame.tokens for frame in model.frames(x, how)]
    with torch.autocast("cpu", torch.bfloat16):
        for frame, tokens in zip(model.frames(x, how), plain, strict=True):
            assert torch.is_autocast_enabled("cpu")
            assert torch.equal(frame.tokens, tokens)


def test_a_log_shows_how_far_it_is(letters, tmp_path, capsys, monkeypatch):
    """Without a terminal: occasional progress lines on stderr for long runs; none for short runs or with --json."""
    words = ("sample", letters, "-n", 6, "--batch-size", 2, "--steps", 2, "--out", tmp_path / "s.txt")
    assert "sampling:" not in command(capsys, *words)[2]
    monkeypatch.setattr(progress, "EVERY", 0.0)
    code, out, err = command(capsys, *words)
    assert code == 0
    assert re.findall(r"sampling: (\d+%), about \d+ s left", err) == ["33%", "67%"]
    assert "about" not in out
    assert "sampling:" not in command(capsys, *words, "--json")[2]


def test_lines_tell_what_is_left(capsys):
    now = iter([0.0, 20.0, 40.0, 50.0, 100.0, 8000.0, 9000.0])
    show = progress.lines("working", clock=lambda: next(now))
    for done in (1, 2, 3, 5, 8, 100):
        show(done, 100)
    said = capsys.readouterr().err.splitlines()  # at 40, 100 and 8,000 s; the end needs no line
    assert said == [
        "working: 2%, about 33 min left",
        "working: 5%, about 32 min left",
        "working: 8%, about 26 h left",
    ]


def test_longer_than_trained(letters):
    (text,) = unmask.load(letters).sample(1, length=50, steps=20)
    assert len(text) == 50
    pairs = [text[i : i + 2] for i in range(49) if text[i].islower()]
    assert sum(pair[1] == pair[0].upper() for pair in pairs) > 0.5 * len(pairs)


FITTING = [name for name, sampler in SAMPLERS.items() if MASKED in sampler.families and sampler.schedules != POLYNOMIAL]


@pytest.mark.parametrize("sampler", FITTING)
def test_every_sampler_by_name(letters, sampler):
    texts = unmask.load(letters).sample(2, sampler=sampler, steps=6)
    assert all(len(text) == 16 and set(text) <= set("abcdABCD") for text in texts)


def test_genmd4_by_name(letters, tmp_path):
    run_folder = trained(letters.parent / "data", tmp_path / "run", method="genmd4")
    model = unmask.load(run_folder)
    for sampler in ("ancestral", "thinning"):
        assert len(model.sample(2, sampler=sampler, steps=5)[0]) == 16
    with pytest.raises(ValueError, match="use ancestral, thinning or race"):
        model.sample(1, sampler="first-hitting")


def test_given_exponents_by_name(letters, tmp_path):
    """Capitals appear seven times as early as the small letters; the network does not see the time."""
    run_folder = tmp_path / "run"
    exponents = [word for token in range(4) for word in (token, 7)]
    flags = ("--exponents", *exponents, "--steps", 5, "--save-every", 5, "--preview", 0)
    done = run("train", "--data", letters.parent / "data", "--size", "1m", "--out", run_folder, *flags, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    model = unmask.load(run_folder)
    assert model.process.schedule.w.tolist() == [7.0] * 4 + [1.0] * 4
    for sampler in ("ancestral", "thinning", "race"):
        assert len(model.sample(2, sampler=sampler, steps=5)[0]) == 16
    done = run("eval", run_folder, "--sequences", 4, "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["bits_per_token"]["mean"] > 0


def test_pictures_with_classes_and_guidance(pictures):
    model = unmask.load(pictures)
    plain = model.sample_tokens(3, steps=4, label=1).tokens
    assert plain.shape == (3, 4, 4)
    guided = model.sample_tokens(3, steps=4, label=1, guidance=4.0, rising=True)
    assert guided.calls == 2 * model.sample_tokens(3, steps=4, label=1).calls
    with pytest.raises(ValueError, match="there is nothing to guide by"):
        model.sample_tokens(1, guidance=2.0)


def test_classes_of_text_have_names(tmp_path, capsys):
    """From Python and the command line; given its class, a text is less surprising than given another."""
    records = [{"text": word * 3, "label": mood} for word, mood in (("ab", "glad"), ("cd", "sad"))] * 60
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    prepare(Plan(str(tmp_path / "a.jsonl"), reading=Reading(label_column="label"), rows=True), tmp_path / "data")
    run = trained(tmp_path / "data", tmp_path / "run", steps=150, batch_size=16, average=0.5)
    model = unmask.load(run)
    for number, name in enumerate(("glad", "sad")):
        assert model.sample(2, label=name, steps=6) == model.sample(2, label=number, steps=6)
    bits = {}
    for name in ("glad", "sad"):
        code, out, _ = command(capsys, "score", run, "cdcdcd", "--label", name, "--json")
        assert code == 0
        bits[name] = json.loads(out)["bits"]
    assert bits["sad"] + 0.1 < bits["glad"]  # with the same masks
    for wrong in ("angry", 2, "2"):
        with pytest.raises(ValueError, match=f"no such class: got {wrong}, allowed: glad, sad"):
            model.sample(1, label=wrong)


def test_other_brackets_are_text():
    found = parse("[Mask of Zorro] and [masks] ____", Bytes())
    assert found.gap.sum() == 4


def test_guidance_by_a_prompt_needs_hidden_tokens(letters, tmp_path):
    """Other networks were never trained on what "without the prompt" would show them."""
    for method in ("ar", "multinomial"):
        run = trained(letters.parent / "data", tmp_path / method, method, steps=1)
        with pytest.raises(ValueError, match="guidance by a prompt needs another model: got "):
            unmask.load(run).infill("aA[MASK:4]", guidance=2.0, steps=2)


def test_rows_of_one_length_are_drawn_to_their_end(tmp_path, capsys):
    """What a prompt leaves open at the end is unknown: it must not be taken for zeros that were given."""
    np.save(tmp_path / "rows.npy", 5 + np.arange(8)[None] + np.arange(40)[:, None] % 5)  # no zeros
    prepare(Plan(str(tmp_path / "rows.npy")), tmp_path / "data")
    run = trained(tmp_path / "data", tmp_path / "run", steps=60, batch_size=16, average=0.5)
    model = unmask.load(run)
    mask = model.process.mask_id
    assert model.prompt("8 9 [MASK:2] 12").tolist() == [8, 9, mask, mask, 12, mask, mask, mask]
    code, out, _ = command(capsys, "infill", run, "8 9 [MASK:2] 12", "--json")
    assert code == 0
    (row,) = json.loads(out)["tokens"]
    assert [row[i] for i in (0, 1, 4)] == [8, 9, 12]
    assert 0 not in row


def test_guidance_by_a_prompt(letters):
    """Guidance away from the empty prompt: strength 1 changes nothing, more makes the expected answer more likely."""
    model = unmask.load(letters)
    prompts = ["a[MASK:1]"] * 30
    assert model.infill(prompts, guidance=1.0, steps=2) == model.infill(prompts, steps=2)
    with pytest.raises(ValueError, match="does not extend over several blocks"):
        model.infill("a[MASK:40]", guidance=2.0)
    assert model.infill(prompts, guidance=3.0, steps=2).count("aA") >= model.infill(prompts, steps=2).count("aA")


def test_lengths_of_rows(molecules):
    model = unmask.load(molecules)
    x = model.blank(40, 0, least=3)
    assert {int((row == model.process.mask_id).sum()) for row in x} == {3, 4}
    with pytest.raises(ValueError, match=r"no row has such a length: got at least 9, allowed: 2..4"):
        model.blank(1, 0, least=9)
    (text,) = model.infill("C[MASK:1]", steps=3)
    assert text.startswith("C")
    with pytest.raises(ValueError, match="longer than the model's rows"):
        model.prompt("C[MASK:60]")
    with pytest.raises(ValueError, match="the length cannot be chosen for this model"):
        model.sample(1, length=9)


def test_gaps_in_subwords(subwords):
    vocabulary = unmask.load(subwords).vocabulary
    prompt = parse("the ____ sat on [MASK:2] mat", vocabulary)
    assert prompt.gap.sum() == 3
    assert vocabulary.decode(prompt.tokens[~prompt.gap]) == "the sat on mat"  # spaces belong to what follows them
    with pytest.raises(ValueError, match="a gap begins or ends within a word") as caught:
        parse("the ca____ sat", vocabulary)
    assert " | " in str(caught.value)  # shows how the text was read
    with pytest.raises(ValueError, match="within a word"):
        parse("the ____at sat", vocabulary)


def test_the_command_samples_into_files(letters, tmp_path):
    done = run(
        "sample", letters, "-n", 3, "--steps", 8, "--out", "a.txt", "--gif", "a.gif", "--html", "a.html", cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    texts = done.stdout.split("wrote")[0].strip().split("\n\n")
    assert [len(text) for text in texts] == [16, 16, 16]
    assert (tmp_path / "a.txt").read_text().split() == texts
    assert (tmp_path / "a.gif").read_bytes().startswith(b"GIF8")
    assert texts[0][0] in (tmp_path / "a.html").read_text()
    assert "network calls each (ancestral)" in done.stderr
    assert "\x1b" not in done.stdout  # no colours when piped


def test_many_samples_are_written_and_a_few_shown(letters, tmp_path, capsys):
    code, out, _ = command(capsys, "sample", letters, "-n", 6, "--steps", 2, "--out", tmp_path / "a.txt")
    assert code == 0
    assert len((tmp_path / "a.txt").read_text().split()) == 6
    assert len(out.split("wrote")[0].split()) == 4


def test_json_and_arrays(letters, tmp_path, capsys):
    code, out, _ = command(capsys, "sample", letters, "-n", 2, "--steps", 4, "--json", "--out", tmp_path / "a.npz")
    found = json.loads(out)
    assert code == 0
    assert np.load(tmp_path / "a.npz")["tokens"].tolist() == found["tokens"]
    assert found["samples"] == 2
    assert 1 <= found["network_calls_per_sample"] <= 4
    assert found["texts"] == unmask.load(letters).sample(2, steps=4)


def test_infill_command(letters, pictures, tmp_path, capsys):
    code, out, _ = command(capsys, "infill", letters, "aAb[MASK:1]cC", "-n", 2, "--steps", 3)
    assert code == 0
    assert out.split() == ["aAbBcC", "aAbBcC"]
    from PIL import Image

    rng = np.random.default_rng(0)
    image, mask = rng.integers(0, 256, (4, 4), dtype=np.uint8), np.zeros((4, 4), dtype=np.uint8)
    mask[2:] = 255
    for name, pixels in (("image.png", image), ("mask.png", mask)):
        Image.fromarray(pixels).save(tmp_path / name)
    words = ("--image", tmp_path / "image.png", "--mask", tmp_path / "mask.png", "--out", tmp_path / "filled.png")
    code, out, _ = command(capsys, "infill", pictures, *words, "--json")
    assert code == 0
    assert np.array_equal(np.array(json.loads(out)["tokens"][0])[:2], image[:2])
    assert np.array_equal(np.asarray(Image.open(tmp_path / "filled.png"))[:2], image[:2])
    np.save(tmp_path / "image.npy", image)
    np.save(tmp_path / "mask.npy", mask > 0)
    words = ("--image", tmp_path / "image.npy", "--mask", tmp_path / "mask.npy", "--json")
    assert command(capsys, "infill", pictures, *words)[0] == 0
    for wrong in (image.astype(np.int64) - 300, image / 255):
        np.save(tmp_path / "image.npy", wrong)
        code, _, err = command(capsys, "infill", pictures, *words)
        assert code == 2
        assert "image.npy has values that the model does not know: got " in err
    for name, said in (("image.npy", "is not an array file"), ("image.png", "is not a readable image")):
        (tmp_path / name).write_bytes(b"no picture")
        code, _, err = command(capsys, "infill", pictures, "--image", tmp_path / name, *words[2:])
        assert code == 2
        assert f"{name} {said}: got another" in err


def test_samplers_are_listed_and_drawn(tmp_path, capsys):
    code, out, _ = command(capsys, "samplers", "--json")
    assert code == 0
    assert {row["name"] for row in json.loads(out)} == set(SAMPLERS)
    code, out, _ = command(capsys, "samplers", "--plot", tmp_path / "a.png")
    assert code == 0
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    assert f"wrote {tmp_path / 'a.png'}" in out
    for name in SAMPLERS:
        assert name in out
    code, out, _ = command(capsys, "samplers", "--plot", tmp_path / "b.png", "--json")
    assert code == 0
    assert {row["name"] for row in json.loads(out)} == set(SAMPLERS)  # and nothing else
    assert (tmp_path / "b.png").exists()


def test_tokens_revealed_per_step():
    """The plotted numbers: N in total; constant for linear, few at first for a cosine grid or a cosine schedule."""
    from unmask.cli.figures import revealed_per_step
    from unmask.core import Cosine, Linear

    linear, grid, schedule = (
        revealed_per_step(s, g, 10, 100)
        for s, g in ((Linear(), "uniform"), (Linear(), "cosine"), (Cosine(), "uniform"))
    )
    for numbers in (linear, grid, schedule):
        assert sum(numbers) == pytest.approx(100)
    assert linear == pytest.approx([10] * 10)
    assert grid == pytest.approx(schedule)
    assert grid[0] < 2 < 15 < grid[-1]


def test_options_are_those_of_the_sampler_that_is_used(letters, tmp_path, capsys):
    """A model of another family has another default sampler."""
    causal = trained(letters.parent / "data", tmp_path / "run", method="ar")
    code, _, err = command(capsys, "sample", causal, "--option", "eta=1")
    assert code == 2
    assert "not an option of left-to-right" in err


def test_bench_sample(tmp_path, capsys):
    words = ("bench", "sample", "characters", "-n", 2, "--sampling-steps", 4, "--layers", 1, "--repeats", 1)
    code, out, _ = command(capsys, *words, "--json", "--out", tmp_path / "a.json")
    assert code == 0
    found = json.loads(out)
    assert found == json.loads((tmp_path / "a.json").read_text())
    assert found["rows"][0]["way"] == "ancestral"
    plain = found["rows"][-1]
    assert plain["way"] == "straightforward"
    assert plain["calls_per_sample"] == 4
    assert all(row["tokens_per_s"] > 0 for row in found["rows"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--steps", "0"], "steps is out of range: got 0, allowed: an integer, 1..16,777,216"),
        (["--rising"], "rising needs guidance: got rising alone"),
        (["--sampler", "ancestrl"], "did you mean ancestral"),
        (["--label", "3"], "the model has no classes"),
        (["--guidance", "2"], "there is nothing to guide by"),
        (["--guidance", "nan"], "guidance is not finite: got nan"),
        (["--steps", str(10**18)], "steps is out of range"),
        (["--sampler", "first-hitting", "--steps", "7"], "first-hitting does not use --steps: got 7"),
        (["--sampler", "first-hitting", "--grid", "cosine"], "first-hitting does not use --grid: got cosine"),
        (["--option", "eta=3"], "not an option of ancestral"),
        (["--sampler", "remask-cap", "--option", "eta=much"], "the value of eta is not a number"),
        (["--temperature", "-1"], "temperature is out of range"),
        (["--count", "0"], "the number of samples is not positive"),
        (["--out", "a.png"], "these samples are not images"),
        (["--gif", "a.png"], "the name does not end in .gif"),
        (["--max-length", "4"], "all rows of this model have the same length"),
        (["--length", "0"], "the length is out of range: got 0"),
        (["--length", str(10**20)], "the length is out of range: got 100000000000000000000, allowed: 1..16,777,216"),
        (["--length", str(1 << 24), "-n", str(1 << 20)], "out of memory"),
        (["--out", "a.jpg"], "unknown file type: got a.jpg, allowed: .txt, .json, .npz, .png"),
        (["--out", "."], "is a folder"),
    ],
)
def test_bad_input_is_one_line(letters, words, message, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = command(capsys, "sample", letters, *words)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1
    assert out == ""
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("prompts", "message"),
    [
        (["no gap"], "the prompt has no gap"),
        (["é____"], "is not in the vocabulary"),
        (["a[MASK:0]"], "a gap is empty"),
        (["a[MASK]bB"], "a gap is misspelt: got [MASK], allowed: ____ or [MASK:5]"),
        (["a____[mask: 3]"], "a gap is misspelt: got [mask: 3]"),
        (["a____[MASK:2"], "a gap is misspelt: got [MASK:2"),
        ([], "nothing to fill"),
    ],
)
def test_bad_prompts(letters, prompts, message, capsys):
    code, _, err = command(capsys, "infill", letters, *prompts)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1


def test_live_view_shows_masks_then_tokens(letters, pictures):
    """The terminal view: a dot for every mask, then text; given positions are bold."""
    for folder, picture in ((letters, False), (pictures, True)):
        model = unmask.load(folder)
        watch = Watch(model.vocabulary, model.process.mask_id, picture, 2, keep=True)
        shown = []
        for frame in model.frames(model.blank(2, 0), Sampling(steps=5)):
            watch.take(frame)
            shown.append(watch.renderable().renderables[0])
        assert shown[0] != shown[-1]
        if not picture:
            assert set(shown[0].plain) == {"·"}
            assert "·" not in shown[-1].plain
        story = watch.stories()[0]
        assert len(story.tokens) == len(shown)
        assert (story.tokens[0] == story.mask_id).all()
        assert (story.tokens[-1] != story.mask_id).all()


def test_without_an_animation_only_the_last_frame_is_kept(letters):
    """Of a batch, only the shown rows are kept: on a CPU, a slice would keep the whole tensor alive."""
    model = unmask.load(letters)
    watch = Watch(model.vocabulary, model.process.mask_id, picture=False, shown=2)
    for frame in model.frames(model.blank(64, 0), Sampling(steps=5)):
        watch.take(frame)
    (last,) = watch.frames
    assert last.untyped_storage().nbytes() == last.nbytes == frame.tokens[:2].nbytes
    assert torch.equal(last, frame.tokens[:2])


def test_rows_of_numbers_are_filled(tmp_path, capsys):
    """As text of numbers and as arrays, whatever the values mean."""
    rng = np.random.default_rng(0)
    np.save(tmp_path / "a.npy", np.cumsum(rng.integers(1, 3, (200, 6)), axis=1).astype(np.int64) * 30)
    prepare(Plan(str(tmp_path / "a.npy")), tmp_path / "data")
    trained(tmp_path / "data", tmp_path / "run")
    code, out, err = command(capsys, "infill", tmp_path / "run", "30 60 [MASK:3] 300", "--steps", 2, "--json")
    assert code == 0, err
    (tokens,) = json.loads(out)["tokens"]
    assert (tokens[:2], tokens[-1], len(tokens)) == ([30, 60], 300, 6)
    assert json.loads(out)["texts"] == [" ".join(map(str, tokens))]
    np.save(tmp_path / "row.npy", np.array([30, 60, 0, 0, 0, 300]))
    np.save(tmp_path / "mask.npy", np.array([0, 0, 1, 1, 1, 0]))
    words = ("infill", tmp_path / "run", "--image", tmp_path / "row.npy", "--mask", tmp_path / "mask.npy", "--steps", 2)
    code, out, err = command(capsys, *words, "--json")
    assert code == 0, err
    assert json.loads(out)["tokens"] == [tokens]
    assert command(capsys, "score", tmp_path / "run", " ".join(map(str, tokens)))[0] == 0
    for prompt, said in (("3 four [MASK:4]", "integers cannot encode text: got 'four'"), ("-1 [MASK:5]", "'-1'")):
        code, _, err = command(capsys, "infill", tmp_path / "run", prompt)
        assert code == 2
        assert said in err
    np.save(tmp_path / "row.npy", np.array([30, 60, 0, 0, 0, 99999]))
    code, _, err = command(capsys, *words)
    assert code == 2
    assert "row.npy has values that the model does not know: got int64 0..99999" in err


def test_samples_of_several_lines_are_said_to_need_json(tmp_path, capsys):
    """A text file has one sample per line for `unmask check`; cells of a table may have several lines."""
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": "\n\n\n\na"}) + "\n" for _ in range(80)))
    prepare(Plan(str(tmp_path / "a.jsonl"), rows=True), tmp_path / "data")
    trained(tmp_path / "data", tmp_path / "run", steps=20)
    for name, noted in (("a.txt", True), ("a.json", False)):
        code, _, err = command(capsys, "sample", tmp_path / "run", "-n", 8, "--steps", 2, "--out", tmp_path / name)
        assert code == 0
        assert ("has samples of several lines: write .json to keep them apart" in err) is noted


def test_one_long_batch_shows_how_far_it_is(letters, capsys, monkeypatch):
    monkeypatch.setattr("unmask.cli.sample._OFTEN", -1.0)
    monkeypatch.setattr("unmask.cli.progress.EVERY", -1.0)
    code, _, err = command(capsys, "sample", letters, "-n", 4, "--steps", 8)
    assert code == 0
    shares = [int(share) for share in re.findall(r"sampling: (\d+)%", err)]
    assert len(shares) > 3
    assert shares == sorted(shares)
    assert 0 < shares[0] < shares[-1] < 100


def watched(vocabulary, *rows, trim=False):
    """The live view of frames, each a row of ids; None is masked."""
    watch = Watch(vocabulary, vocabulary.size, picture=False, shown=1, trim=trim)
    for step, row in enumerate(rows):
        tokens = torch.tensor([[vocabulary.size if token is None else token for token in row]])
        t = torch.tensor([1 - step / len(rows)])
        watch.take(Frame(step, t, tokens, torch.ones_like(tokens, dtype=torch.bool)))
        yield watch.text(0).plain


@pytest.mark.parametrize("vocabulary", [Bytes(), Subwords.train(["a b"], 257)], ids=["bytes", "bpe"])
def test_live_view_waits_for_all_of_a_character(vocabulary):
    """The bytes of an incomplete character look like masks; a damaged character is shown as such."""
    a, first, second, one, two, three = vocabulary.encode("aé–").tolist()
    _ = None
    shown = watched(
        vocabulary,
        (_, _, _, _, _, _),
        (a, first, _, _, two, _),
        (a, _, second, one, _, three),
        (a, first, second, one, _, _),
        (a, first, second, one, two, three),
        (a, first, second, one, two, a),
        (second, _, a, first, a, one),
    )
    assert list(shown) == ["······", "a·····", "a·····", "aé···", "aé–", "aé\ufffda", "··a\ufffda\ufffd"]


def test_live_view_ends_where_the_text_does():
    end = Bytes(eos=True).eos_id
    frames = (97, None, 98, None), (97, None, 98, end), (97, end, 98, end)
    assert list(watched(Bytes(eos=True), *frames)) == ["a·b·", "a·b", "ab"]
    assert list(watched(Bytes(eos=True), *frames, trim=True)) == ["a·b·", "a·b", "a"]


def test_a_race_without_time_is_not_asked_to_go_on(letters, tmp_path, capsys):
    """It treats every visible token as the winner of a race, so it has no distribution given a prompt: an error."""
    how = {"steps": 2, "batch_size": 4, "validation_sequences": 2, "preview": 0}
    data = str(letters.parent / "data")
    config = default_config(data)
    small = replace(config.network, layers=1, heads=2, width=16)
    config = replace(config, network=small, training=replace(config.training, **how))
    for time in (False, True):
        method = replace(config.method, exponents=((0, 8.0),))
        network = replace(small, conditioning=Conditioning(time=time))
        list(train(replace(config, network=network, method=method), tmp_path / f"{time}", torch.device("cpu")))
    for words in (("infill", "aA____"), ("sample", "--length", 40)):
        name, *rest = words
        code, _, err = command(capsys, name, tmp_path / "False", *rest, "--steps", 2)
        assert code == 2
        assert err.startswith("this model cannot continue from given tokens: got ")
        assert command(capsys, name, tmp_path / "True", *rest, "--steps", 2)[0] == 0
    assert command(capsys, "sample", tmp_path / "False", "-n", 1, "--sampler", "race")[0] == 0
    (tmp_path / "asked.jsonl").write_text('{"question": "aA", "choices": ["bB", "bA"], "answer": 0}\n')
    code, _, err = command(capsys, "eval", tmp_path / "False", "--choices", tmp_path / "asked.jsonl")
    assert code == 2
    assert err.startswith("this model cannot score what follows a prompt: got exponents")
    unmask.load(tmp_path / "True").check_continuations()
