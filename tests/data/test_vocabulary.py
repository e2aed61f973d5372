import pickle

import numpy as np
import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st

from unmask.data import Bytes, Characters, Integers, Subwords
from unmask.data.vocabulary import from_json, load

TEXT = "the quick brown fox, größer als 日本語 🙂\n"
CORPUS = ["the cat sat on the mat", "the dog sat on the log", TEXT] * 20


def all_vocabularies():
    return {
        "characters": Characters.of([TEXT], eos=True),
        "bytes": Bytes(eos=True),
        "bpe": Subwords.train(CORPUS, 300),
    }


@pytest.mark.parametrize("eos", [False, True])
def test_integers_survive_the_round_trip(eos):
    vocabulary = Integers(300, eos)
    assert vocabulary.size == 300 + eos
    ids = vocabulary.encode("0 299 7")
    assert vocabulary.decode(np.append(ids, vocabulary.eos_id) if eos else ids) == "0 299 7"
    assert from_json(vocabulary.to_json()) == vocabulary
    assert (vocabulary == Integers(300)) is not eos


VOCABULARIES = all_vocabularies()
every_vocabulary = pytest.mark.parametrize("vocabulary", VOCABULARIES.values(), ids=VOCABULARIES.keys())


@every_vocabulary
def test_text_survives_the_round_trip(vocabulary):
    ids = vocabulary.encode(TEXT)
    assert vocabulary.decode(ids) == TEXT
    assert np.array_equal(ids, vocabulary.encode(TEXT.encode()))
    assert ids.max() < vocabulary.size
    assert ids.dtype == vocabulary.dtype


@every_vocabulary
def test_bytes_are_the_same_however_the_ids_are_cut(vocabulary):
    ids = np.append(vocabulary.encode(TEXT), vocabulary.eos_id)
    for size in (1, 3, len(ids)):
        pieces = [vocabulary.spelt(ids[start : start + size]) for start in range(0, len(ids), size)]
        assert b"".join(pieces) == TEXT.encode()


@given(st.lists(st.integers(0, 299)))
def test_bytes_of_any_subwords_are_those_that_are_decoded(ids):
    bpe = VOCABULARIES["bpe"]
    assert bpe.spelt(ids).decode(errors="replace") == bpe.decode(ids)


@given(st.lists(st.integers(0, 256)), st.sampled_from(sorted(VOCABULARIES)))
def test_pieces_make_up_the_text(ids, name):
    """For any ids, including bytes that are not characters; one piece for each id."""
    vocabulary = VOCABULARIES[name]
    ids = [i % vocabulary.size for i in ids]
    pieces = vocabulary.pieces(ids)
    assert len(pieces) == len(ids)
    assert "".join(pieces) == vocabulary.decode(ids)


def test_a_character_of_several_ids_stands_with_the_last_of_them():
    assert Bytes().pieces(list("aé–".encode())) == ["a", "", "é", "", "", "–"]
    assert Bytes().pieces(list("–".encode()[:2] + b"a\xc3")) == ["", "", "\ufffda", "\ufffd"]
    assert Integers(100).pieces([7, 42, 7]) == ["7", " 42", " 7"]


def test_pieces_of_tokenizers_whose_words_depend_on_their_neighbours():
    """The first word has no space before it; bytes of characters outside all words only together form a character."""
    words = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), "▁to", "▁be", "s"]
    tokenizer = tokenizers.Tokenizer(
        tokenizers.models.BPE({word: i for i, word in enumerate(words)}, [], byte_fallback=True)
    )
    tokenizer.decoder = tokenizers.decoders.Sequence(
        [
            tokenizers.decoders.Replace("▁", " "),
            tokenizers.decoders.ByteFallback(),
            tokenizers.decoders.Fuse(),
            tokenizers.decoders.Strip(" ", 1, 0),
        ]
    )
    subwords = Subwords(tokenizer.to_str())
    to, be, s, lead, last = words.index("▁to"), words.index("▁be"), words.index("s"), 1 + 0xC3, 1 + 0xA9
    assert subwords.pieces([to, be, s, to]) == ["to", " be", "s", " to"]
    assert subwords.pieces([be, lead, last, s]) == ["be", "", "é", "s"]
    for ids in ([lead, last, last], [last, to, lead], [to] * 9 + [lead, last] * 4 + [lead]):
        assert "".join(subwords.pieces(ids)) == subwords.decode(ids)
        assert len(subwords.pieces(ids)) == len(ids)


def test_bytes_of_tokens_that_were_added():
    """A special token has none, an added token those of its name; words of other tokenizers have the text's."""
    tokenizer = tokenizers.Tokenizer.from_str(VOCABULARIES["bpe"]._document)
    tokenizer.add_tokens(["日本 "])
    tokenizer.add_special_tokens(["<|user|>"])
    bpe = Subwords(tokenizer.to_str())
    for text in ("a日本 b", "<|user|>a"):
        assert bpe.spelt(bpe.encode(text)).decode() == bpe.decode(bpe.encode(text))
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"größer": 0, "als": 1, "?": 2}, unk_token="?"))  # noqa: S106
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    plain = Subwords(words.to_str())
    assert plain.spelt(plain.encode("größer als")) == "größer als".encode()


@every_vocabulary
def test_saved_loaded_and_pickled_vocabularies_are_the_same(vocabulary, tmp_path):
    vocabulary.save(tmp_path / "vocabulary.json")
    for other in (load(tmp_path / "vocabulary.json"), pickle.loads(pickle.dumps(vocabulary))):  # noqa: S301
        assert other == vocabulary
        assert (other.size, other.eos_id) == (vocabulary.size, vocabulary.eos_id)
        assert np.array_equal(other.encode(TEXT), vocabulary.encode(TEXT))


@every_vocabulary
def test_end_of_text_is_a_token_and_shows_as_nothing(vocabulary):
    assert vocabulary.eos_id is not None
    assert vocabulary.eos_id < vocabulary.size
    assert vocabulary.decode([vocabulary.eos_id]) == ""


@given(st.text())
def test_bytes_hold_any_text(text):
    assert Bytes().decode(Bytes().encode(text)) == text


@given(st.text(min_size=1))
def test_characters_hold_their_own_alphabet(text):
    vocabulary = Characters.of([text])
    assert vocabulary.decode(vocabulary.encode(text)) == text
    assert vocabulary.size == len(set(text))


def test_truncation_and_padding_of_a_tokenizer_are_off():
    """Files of other programs often ask for them: tokens would be lost, or added."""
    plain = VOCABULARIES["bpe"]
    tokenizer = tokenizers.Tokenizer.from_str(plain._document)
    tokenizer.enable_truncation(3)
    tokenizer.enable_padding(length=1000)
    text = CORPUS[0] * 5
    assert np.array_equal(Subwords(tokenizer.to_str()).encode(text), plain.encode(text))


def test_bpe_learns_merges_and_needs_fewer_tokens():
    small, large = Subwords.train(CORPUS, 257), Subwords.train(CORPUS, 320)
    assert len(large.encode("the cat sat")) < len(small.encode("the cat sat")) == len("the cat sat")


def test_gpt2_files(tmp_path):
    """GPT-2's own format: encoder.json and vocab.bpe, byte-level, no prefix space."""
    letters = "He lo wrd".replace(" ", "")
    vocabulary = {c: i for i, c in enumerate(sorted(set(letters)))} | {"Ġ": 90, "He": 91, "Ġw": 92, "<|endoftext|>": 93}
    import json

    (tmp_path / "encoder.json").write_text(json.dumps(vocabulary))
    (tmp_path / "vocab.bpe").write_text("#version: 0.2\nH e\nĠ w\n")
    gpt2 = Subwords.load(tmp_path)
    ids = gpt2.encode("Hello world")
    assert ids[0] == 91
    assert 92 in ids
    assert gpt2.decode(ids) == "Hello world"
    assert gpt2.eos_id == 93
    (tmp_path / "encoder.json").write_text("{")
    with pytest.raises(ValueError, match=r"encoder.json and vocab.bpe are not a tokenizer: got "):
        Subwords.load(tmp_path)


def test_smallest_type():
    assert Bytes().dtype == np.uint8
    assert Bytes(eos=True).dtype == np.uint16
    assert Integers(65_536).dtype == np.uint16
    assert Integers(65_537).dtype == np.uint32


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Characters("abca"), "'a' repeated"),
        (lambda: Characters(""), "at least one character"),
        (lambda: Characters("ab").encode("abxab"), r"'x' is not in the vocabulary: got it at position 2"),
        (lambda: Characters("ab").encode(b"a\xff"), "not UTF-8: got byte 0xff"),
        (lambda: Characters("ab").encode(np.zeros(3, np.int64)), "a vocabulary of text cannot encode numbers"),
        (lambda: Integers(0), "the vocabulary is empty"),
        (lambda: Integers(4).encode(np.array([1, 4])), r"got 4, allowed: 0\.\.3"),
        (lambda: Integers(4).encode(np.array([-1])), r"got -1, allowed: 0\.\.3"),
        (lambda: Integers(4).encode(np.array([0.5])), "not integers: got float64"),
        (lambda: Integers(4).encode(np.array([0, -2])), "got -2, allowed: 0..3; shift the values"),
        (lambda: Integers(4).encode(np.array([0, 4])), "got 4, allowed: 0..3; use values within it"),
        (lambda: Integers(4).encode("abc"), "a vocabulary of integers cannot encode text"),
        (lambda: Integers(10**12), "the vocabulary is too large: got 1,000,000,000,000, allowed: at most 16,777,216"),
        (lambda: Subwords.train(["a"], 100), "got 100, allowed: a size >= 257"),
        (lambda: from_json({"kind": "runes"}), "got runes, allowed: characters, bytes, integers, subwords"),
    ],
)
def test_mistakes(make, message):
    with pytest.raises(ValueError, match=message) as caught:
        make()
    assert "\n" not in str(caught.value)
