"""Pages and GIFs of trajectories: what they hold is what happened."""

import json
import re

import numpy as np
import pytest
from PIL import Image, ImageSequence

from unmask.data.vocabulary import Bytes, Characters, Integers, Subwords
from unmask.run import animation
from unmask.run.animation import write_gif, write_html
from unmask.run.story import Story

HOSTILE = "</script><script>alert(1)<!--&'\"$x"


def told(final, vocabulary, frames=6, given=()):
    """A story that reveals one part of `final` after the other, in a random order."""
    final = np.asarray(final, dtype=np.int64)
    plain = np.zeros(final.size, dtype=bool)
    plain[list(given)] = True
    order = np.random.default_rng(0).permutation(final.size)
    shown_from = np.where(plain, 0, 1 + order * (frames - 1) // final.size).reshape(final.shape)
    tokens = np.stack([np.where(shown_from <= f, final, vocabulary.size) for f in range(frames)])
    return Story(tokens, np.linspace(1, 0, frames), plain.reshape(final.shape), vocabulary.size, vocabulary)


def text_story(text="to be,\nor not", frames=6, given=()):
    vocabulary = Characters("".join(sorted(set(text))))
    return told(vocabulary.encode(text), vocabulary, frames, given)


def picture_story(*shape, frames=6, seed=0):
    return told(np.random.default_rng(seed).integers(0, 256, shape), Integers(256), frames)


def read(path):
    """The data in a page."""
    found = re.findall(r'<script type="application/json" id="data">(.*?)</script>', path.read_text("utf-8"), re.S)
    assert len(found) == 1
    return json.loads(found[0])


def replayed(document):
    """Every frame of a document [F, N]."""
    frames = [list(document["first"])]
    for places, values in document["changes"]:
        frames.append(list(frames[-1]))
        for place, value in zip(places, values, strict=True):
            assert frames[-1][place] != value
            frames[-1][place] = value
    return np.array(frames)


def texts(document):
    """Every frame as the text of each position, None where it is masked."""
    return [[None if v == -1 else document["pieces"][v] for v in frame] for frame in replayed(document).tolist()]


def frames_of(path):
    with Image.open(path) as image:
        stills = [(np.asarray(still.convert("RGB")), still.info["duration"]) for still in ImageSequence.Iterator(image)]
        return *(list(part) for part in zip(*stills, strict=True)), image.info.get("loop")


def test_a_page_replays_text(tmp_path):
    story = text_story(given=[0, 1, 2])
    write_html(tmp_path / "a.html", [story], "Text")
    [document] = read(tmp_path / "a.html")
    expected = [[None if t == story.mask_id else story.vocabulary.decode([t]) for t in row] for row in story.tokens]
    assert texts(document) == expected
    assert document["given"] == [0, 1, 2]
    assert document["times"] == pytest.approx(story.times.tolist())


@pytest.mark.parametrize("shape", [(5, 4), (5, 4, 3)], ids=["grey", "colour"])
def test_a_page_replays_pictures(tmp_path, shape):
    stories = [picture_story(*shape, seed=seed) for seed in range(2)]
    write_html(tmp_path / "a.html", stories, "Pictures")
    documents = read(tmp_path / "a.html")
    assert len(documents) == 2
    for document, story in zip(documents, stories, strict=True):
        assert (document["kind"], document["height"], document["width"]) == ("picture", 5, 4)
        expected = np.where(story.tokens == story.mask_id, -1, story.tokens).reshape(6, -1)
        assert (replayed(document) == expected).all()


def test_a_position_may_change_its_mind(tmp_path):
    vocabulary = Characters("ab")
    tokens = np.array([[2, 2], [0, 2], [2, 1], [1, 0]])
    story = Story(tokens, np.linspace(1, 0, 4), np.zeros(2, dtype=bool), 2, vocabulary)
    write_html(tmp_path / "a.html", [story], "Changes")
    [document] = read(tmp_path / "a.html")
    assert texts(document) == [[None, None], ["a", None], [None, "b"], ["b", "a"]]
    write_gif(tmp_path / "a.gif", [story])
    assert len(frames_of(tmp_path / "a.gif")[0]) == 4


def test_the_end_of_text_is_not_a_mask(tmp_path):
    vocabulary = Characters("ab", eos=True)
    write_html(tmp_path / "a.html", [told([0, 1, 2, 2], vocabulary)], "End")
    [document] = read(tmp_path / "a.html")
    assert texts(document)[-1] == ["a", "b", "", ""]


def test_a_masked_position_takes_the_room_of_what_it_becomes(tmp_path):
    write_html(tmp_path / "a.html", [text_story("a b\nc")], "Room")
    [document] = read(tmp_path / "a.html")
    assert [document["pieces"][ghost] for ghost in document["ghosts"]] == ["a", " ", "b", " \n", "c"]


@pytest.mark.parametrize("make", [lambda _: Bytes(), lambda text: Subwords.train([text], 257)], ids=["bytes", "bpe"])
def test_the_bytes_of_a_character_show_as_one(tmp_path, make):
    text = "né “東”😀é"
    vocabulary = make(text)
    write_html(tmp_path / "a.html", [told(vocabulary.encode(text), vocabulary, 12)], "Bytes")
    [document] = read(tmp_path / "a.html")
    *others, last = texts(document)
    assert "".join(last) == text
    assert len(last) == len(text.encode())
    assert any("\ufffd" in (piece or "") for frame in others for piece in frame)


def test_numbers_keep_their_rows(tmp_path):
    story = told([[1, 20], [3, 4]], Integers(30))
    write_html(tmp_path / "a.html", [story], "Numbers")
    [document] = read(tmp_path / "a.html")
    assert (document["kind"], document["columns"]) == ("text", 2)
    assert texts(document)[-1] == [" 1 ", "20 ", " 3 ", " 4 "]


def test_a_page_needs_nothing_else(tmp_path):
    write_html(tmp_path / "a.html", [text_story()], "Alone")
    page = (tmp_path / "a.html").read_text("utf-8")
    assert [file.name for file in tmp_path.iterdir()] == ["a.html"]
    assert not re.search(r"https?://|\ssrc=|@import|url\(|fetch\(", page)
    assert re.findall(r'href="(.*?)"', page) == ["data:,"]
    assert 'name="viewport"' in page
    assert "prefers-color-scheme: dark" in page
    assert "white-space: pre-wrap" in page


def test_hostile_text_stays_text(tmp_path):
    write_html(tmp_path / "calm.html", [text_story()], "Calm")
    write_html(tmp_path / "a.html", [text_story("".join(dict.fromkeys(HOSTILE)))], HOSTILE)
    page = (tmp_path / "a.html").read_text("utf-8")
    assert "alert(1)<" not in page
    assert page.count("<") == (tmp_path / "calm.html").read_text("utf-8").count("<")


def test_hostile_tokens_stay_text(tmp_path, monkeypatch):
    monkeypatch.setattr(Characters, "decode", lambda _, ids: HOSTILE * len(ids))
    write_html(tmp_path / "a.html", [text_story("ab")], "Tokens")
    page = (tmp_path / "a.html").read_text("utf-8")
    assert "</script><script>alert" not in page
    assert "<!--" not in page
    assert texts(read(tmp_path / "a.html")[0])[-1] == [HOSTILE, HOSTILE]


@pytest.mark.parametrize("shape", [(8, 6), (8, 6, 3)], ids=["grey", "colour"])
def test_a_gif_shows_pictures(tmp_path, shape):
    stories = [picture_story(*shape, seed=seed) for seed in range(3)]
    write_gif(tmp_path / "a.gif", stories, milliseconds=50)
    stills, durations, loop = frames_of(tmp_path / "a.gif")
    scale = 20  # two across, 6 pixels each and one between: 13
    assert {still.shape for still in stills} == {(17 * scale, 13 * scale, 3)}
    assert (durations, loop) == ([50] * 5 + [2000], 0)
    first = stories[0].tokens[-1] if len(shape) == 3 else stories[0].tokens[-1][..., None]
    shown = stills[-1][::scale, ::scale][:8, :6].astype(int)
    assert np.abs(shown - first).mean() < 8
    assert np.abs(stills[0][0, 0].astype(int) - animation.MASK_COLOURS[0]).max() < 8


def test_a_long_trajectory_is_thinned_out_between_its_ends(tmp_path):
    story = picture_story(40, 40, frames=500)
    write_gif(tmp_path / "a.gif", [story])
    stills, durations, _ = frames_of(tmp_path / "a.gif")
    assert len(stills) == 120
    assert durations[-1] == 2000
    assert len(np.unique(stills[0].reshape(-1, 3), axis=0)) <= 2
    assert np.abs(stills[-1][::7, ::7, 0].astype(int) - story.tokens[-1]).max() < 16


@pytest.mark.parametrize("count", [1, 2, 119, 120, 121, 1000])
def test_the_kept_frames_are_even(count):
    kept = animation._kept(count)
    assert (kept[0], kept[-1], len(kept)) == (0, count - 1, min(count, 120))
    assert np.ptp(np.diff(kept), axis=None) <= 1 if count > 1 else kept == [0]


@pytest.mark.parametrize("fonts", [animation.MONOSPACED, ()], ids=["system", "pillow"])
def test_a_gif_shows_text(tmp_path, monkeypatch, fonts):
    monkeypatch.setattr(animation, "MONOSPACED", fonts)
    short, long = text_story("to be,\tor\r\nnot\x00 é", 5, given=[0, 1]), text_story("word " * 60, 8)
    write_gif(tmp_path / "one.gif", [short])
    write_gif(tmp_path / "two.gif", [short, long])
    one, two = (frames_of(tmp_path / name)[0] for name in ("one.gif", "two.gif"))
    assert (len(one), len(two)) == (5, 8)
    assert one[0].shape[1] == 256
    assert 256 < two[0].shape[1] <= 640
    assert two[0].shape[0] > one[0].shape[0] + 3 * animation.LINE
    boxes = [(still == animation.BOX).all(-1).sum() for still in one]
    assert boxes[0] > boxes[2] > boxes[-1] == 0
    assert (one[-1][0, 0] == 255).all()


def test_late_tokens_are_warmer():
    early, late = animation._colour(0.0), animation._colour(1.0)
    assert early[2] > early[0]
    assert late[0] > late[2]


def test_lines_break_between_words_and_inside_only_if_they_must():
    cells = [(character, None) for character in "ab cdefghi jk\nl"]
    lines = {}
    for character, _, _, x, line in animation._wrapped(cells, 4, lambda _: 1.0):
        lines.setdefault(line, []).append((x, character))
    assert ["".join(c for _, c in sorted(found)) for found in lines.values()] == ["ab ", "cdefg", "hi ", "jk", "l"]


def test_what_cannot_be_shown_is_said(tmp_path):
    for write in (lambda s: write_gif(tmp_path / "a.gif", s), lambda s: write_html(tmp_path / "a.html", s, "No")):
        with pytest.raises(ValueError, match="got none, allowed: texts, or images of one shape"):
            write([])
        with pytest.raises(ValueError, match=r"got \(2, 3\), text"):
            write([picture_story(2, 3), text_story()])
    with pytest.raises(ValueError, match="got 5 ms, allowed: 20 ms or more"):
        write_gif(tmp_path / "a.gif", [text_story()], milliseconds=5)
    assert not list(tmp_path.iterdir())
