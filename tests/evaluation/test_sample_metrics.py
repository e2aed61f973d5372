"""Metrics of samples: language models, features of images, checkers."""

import math

import numpy as np
import pytest
import torch

from unmask.evaluation import Judge, NGram, extractor, find_checker, frechet
from unmask.evaluation.inception import Inception, legacy_resize, load_inception
from unmask.evaluation.sample_metrics import (
    Samples,
    checked_by,
    distances_by,
    frequencies_near,
    judged,
    mauve_by,
    under_judge,
    under_ngram,
    variety,
)

UNKNOWN = {"unk_token": "<unk>"}
TEXTS = ["the cat sat on the mat", "the dog sat on the log", "a cat"]


@pytest.fixture(scope="module")
def judge_folder(tmp_path_factory):
    """A language model in the true format: GPT-2 with random weights and a tokenizer of words."""
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    folder = tmp_path_factory.mktemp("judge")
    words = {word: i for i, word in enumerate(["<unk>", *sorted({w for text in TEXTS for w in text.split()})])}
    fast = tokenizers.Tokenizer(tokenizers.models.WordLevel(words, **UNKNOWN))
    fast.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    transformers.PreTrainedTokenizerFast(tokenizer_object=fast, **UNKNOWN).save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.GPT2Config(
        vocab_size=len(words), n_positions=5, n_embd=16, n_layer=1, n_head=2, initializer_range=0.5
    )
    transformers.GPT2LMHeadModel(config).save_pretrained(folder)
    return folder


def test_a_judge_measures_texts_as_the_model_does(judge_folder):
    judge = Judge(str(judge_folder))
    found = judge.surprise(TEXTS)
    assert found.tokens.tolist() == [4, 4, 1]  # cut to five tokens, the first is given
    for text, nats in zip(TEXTS, found.nats, strict=True):
        ids = torch.tensor([judge._tokenizer(text)["input_ids"][:5]])
        with torch.no_grad():
            loss = judge._model(input_ids=ids, labels=ids).loss.item()
        assert nats == pytest.approx(loss * (ids.shape[1] - 1), rel=1e-5)
    assert judge.features(TEXTS).shape == (3, 16)
    alone = judge.features(TEXTS[2:])
    np.testing.assert_allclose(judge.features(TEXTS)[2:], alone, rtol=1e-4, atol=1e-5)  # padding changes nothing


def test_generative_perplexity_and_mauve(judge_folder):
    judge = Judge(str(judge_folder))
    samples = Samples([np.arange(3)] * 3, TEXTS)
    value = under_judge(judge)(samples)["generative perplexity"]
    scores = judge.surprise(TEXTS)
    assert value.value == pytest.approx(math.exp(scores.nats.sum() / scores.tokens.sum()))
    assert value.low < value.value < value.high
    same = mauve_by(judge, samples)(samples)["MAUVE"]
    assert same.value == pytest.approx(1, abs=1e-6)


def test_a_judge_without_a_longest_text_cuts_none(judge_folder, tmp_path):
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.PreTrainedTokenizerFast.from_pretrained(judge_folder)
    tokenizer.save_pretrained(tmp_path)
    config = transformers.BloomConfig(vocab_size=len(tokenizer), hidden_size=16, n_layer=1, n_head=2)
    transformers.BloomForCausalLM(config).save_pretrained(tmp_path)
    lengths = [len(tokenizer(text)["input_ids"]) for text in TEXTS]
    assert max(lengths) > 5
    assert Judge(str(tmp_path)).surprise(TEXTS).tokens.tolist() == [n - 1 for n in lengths]


@pytest.mark.parametrize("name", ["no/such/folder", "."])
def test_a_judge_that_cannot_be_loaded(name, tmp_path, monkeypatch):
    pytest.importorskip("transformers")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(ValueError, match="the judge cannot be loaded: got"):
        Judge(name)


def test_ngram_perplexity_of_the_data_it_counted():
    rng = np.random.default_rng(0)
    rows = [rng.integers(0, 4, 200) for _ in range(8)]
    model = NGram(np.concatenate(rows), 1, 4)
    value = under_ngram(model)(Samples(rows, []))["1-gram perplexity"]
    assert value.value == pytest.approx(4, rel=0.01)
    assert value.low <= value.value <= value.high


def test_variety_sees_repetition():
    same, mixed = Samples([np.zeros(50, int)], []), Samples([np.arange(50)], [])
    assert variety(same)["unigram entropy, bits"].value == 0 < variety(mixed)["unigram entropy, bits"].value
    assert variety(same)["repeated 4-grams"].value > 0.9 > variety(mixed)["repeated 4-grams"].value


# ---------------------------------------------------------------------------------------------- pictures


def test_pixels_are_averaged_in_blocks():
    images = np.zeros((2, 32, 48, 3), dtype=np.uint8)
    images[1, :2, :3] = 255
    found = extractor("pixels").of(images)
    assert found.shape == (2, 16 * 16 * 3)
    assert found[0].sum() == 0
    assert found[1].sum() == 3  # one block, three colours


def test_distances_have_honest_names():
    rng = np.random.default_rng(0)
    data, other = (Samples(list(rng.integers(0, high, (40, 4, 4))), []) for high in (256, 128))
    near, far = (distances_by(extractor("pixels"), data)(x) for x in (data, other))
    assert set(near) == {"Fréchet distance of pixels", "kernel distance of pixels", "precision", "recall"}
    assert near["Fréchet distance of pixels"].value == pytest.approx(0, abs=1e-9)
    assert near["precision"].value == near["recall"].value == 1
    assert far["Fréchet distance of pixels"].value > 0.5


def test_legacy_resizing_has_no_half_pixel_shift():
    """Row i of the result is at i·(old/new): for a ramp that is its value, up to the last old pixel."""
    ramp = torch.arange(8.0).view(1, 1, 8, 1).expand(1, 1, 8, 5)
    found = legacy_resize(ramp, 20)[0, 0, :, 0]
    torch.testing.assert_close(found, (torch.arange(20) * 0.4).clamp(max=7))
    assert torch.equal(legacy_resize(ramp[..., :5, :], 5), ramp[..., :5, :])


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """Random weights under the names of the true file, its classifier included."""
    torch.manual_seed(0)
    state = Inception().state_dict() | {"fc.weight": torch.zeros(1008, 2048), "fc.bias": torch.zeros(1008)}
    path = tmp_path_factory.mktemp("inception") / "weights.pth"
    torch.save(state, path)
    return path


def test_inception_has_the_true_files_parameters(weights):
    network = load_inception(weights)
    names = network.state_dict()
    assert sum(p.numel() for p in network.parameters()) == 21_785_568
    assert names["Mixed_6c.branch7x7dbl_3.conv.weight"].shape == (160, 160, 1, 7)
    assert names["Mixed_7b.branch3x3dbl_3b.bn.running_var"].shape == (384,)


def test_fid_is_called_so_with_inception_only(weights):
    rng = np.random.default_rng(0)
    data = Samples(list(rng.integers(0, 256, (3, 8, 8, 3))), [])
    features = extractor(f"inception:{weights}")
    found = distances_by(features, data)(data)
    assert set(found) >= {"FID", "KID"}
    assert found["FID"].value == pytest.approx(0, abs=1e-6)
    assert features.of(np.zeros((1, 8, 8), dtype=np.uint8)).shape == (1, 2048)  # grey ones too


def test_features_of_your_own():
    found = extractor("tests.evaluation.test_sample_metrics:brightness")
    assert found.name == "tests.evaluation.test_sample_metrics:brightness"
    assert found.of(np.full((2, 3, 3), 7, dtype=np.uint8)).tolist() == [[7.0], [7.0]]


def brightness(images):
    return images.reshape(len(images), -1).mean(1, keepdims=True)


@pytest.mark.parametrize("name", ["dino", "nothing:here", "math:no", "inception:missing.pth"])
def test_unknown_features(name):
    with pytest.raises(ValueError, match="allowed"):
        extractor(name)


@pytest.mark.parametrize("content", [b"", b"no weights", b"\x80\x04cos\nsystem\n."])
def test_files_that_are_not_weights(content, tmp_path):
    (tmp_path / "a.pth").write_bytes(content)
    with pytest.raises(ValueError, match="does not hold Inception weights"):
        load_inception(tmp_path / "a.pth")


# ---------------------------------------------------------------------------------------------- checkers

SOLVED = "".join(str((3 * (r % 3) + r // 3 + c) % 9 + 1) for r in range(9) for c in range(9))


def test_sudoku():
    check = find_checker("sudoku")
    assert check(SOLVED)
    assert check("\n".join(SOLVED[i : i + 9] for i in range(0, 81, 9)))
    assert not check(SOLVED[:-1])
    assert not check(SOLVED[:40] + SOLVED[41] + SOLVED[40] + SOLVED[42:])


def test_molecules_and_their_novelty():
    pytest.importorskip("rdkit")
    """OCC is CCO written from its other end, in samples and in the training data."""
    found = checked_by(find_checker("smiles"), ["OCC", "no molecule"])(Samples([], ["CCO", "OCC", "CCC", "C(", ""]))
    assert found["valid"].value == pytest.approx(3 / 5)
    assert found["unique"].value == pytest.approx(2 / 3)
    assert found["novel"].value == pytest.approx(1 / 2)


def test_frequencies():
    near = frequencies_near(np.array([0, 0, 1, 1]), 3)
    assert near(Samples([np.array([0, 1])], []))["frequencies off by"].value == 0
    assert near(Samples([np.array([0]), np.array([2, 2, 2])], []))["frequencies off by"].value == pytest.approx(0.75)


def test_what_is_no_number_is_left_out():
    found = judged(Samples([np.arange(3)], ["("]), [checked_by(find_checker("brackets"), [])])
    assert set(found) == {"valid"}


def test_unknown_checker():
    with pytest.raises(ValueError, match="unknown checker: got chess, allowed: brackets, sudoku, smiles"):
        find_checker("chess")


def test_frechet_grows_with_the_distance():
    rng = np.random.default_rng(0)
    a = rng.normal(size=(200, 3))
    assert frechet(a, a + 1) == pytest.approx(3)
