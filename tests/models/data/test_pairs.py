"""Sentence pairs: what the sources hand over, and how they are cut."""

import struct
import zlib

import numpy as np
import pytest
from num2words import num2words

from models.data import DataError, load
from models.data.pairs import numbers, verses
from models.data.pairs.bpe import Pieces, read_pieces
from models.data.pairs.buckets import BUCKETS, PairBuckets
from models.data.pairs.words import END, PADDING, UNKNOWN, join, pairs_of, split
from models.recipe import Recipe

RECIPE = Recipe("nmt", "numbers", microbatches=3, microbatch_size=4, heldout=100)


def some(count=23, longest=11, seed=0):
    """Return (sources, targets): sentence n begins with the word n."""
    random = np.random.default_rng(seed)
    sides = []
    for _ in range(2):
        lengths = random.integers(1, longest + 1, (count, 1))
        words = np.where(np.arange(longest) < lengths, random.integers(3, 90, (count, longest)), PADDING)
        words[:, 0] = np.arange(count)
        sides.append(words)
    return sides


# -- cutting -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("microbatches, size", [(1, 1), (3, 4), (5, 2), (2, 50)])
@pytest.mark.parametrize("shuffle", [False, True])
def test_an_epoch_holds_every_pair_once(microbatches, size, shuffle):
    sources, targets = some()
    data = PairBuckets(sources, targets, microbatches, size, seed=1, shuffle=shuffle)
    for epoch in range(2):
        seen = []
        for step in range(epoch * data.steps_per_epoch, (epoch + 1) * data.steps_per_epoch):
            counted = 0
            for index in range(microbatches):
                if (batch := data.microbatch(step, index)) is None:
                    continue
                seen += batch.inputs[0].tolist()
                assert np.array_equal(batch.inputs[0], batch.targets[0])  # sentence and translation stay together
                counted += batch.targets.size if batch.weights is None else int(batch.weights.sum())
                assert batch.normaliser == data.examples(step) and batch.inputs.shape[1] <= size
                assert batch.targets.min() >= 0
            assert counted == data.examples(step)
            assert data.starts_epoch(step) == (step % data.steps_per_epoch == 0)
        assert sorted(seen) == list(range(len(sources)))


def test_the_sentences_are_what_was_given():
    sources, targets = some()
    data = PairBuckets(sources, targets, 2, 3)
    for step in range(data.steps_per_epoch):
        for index in range(2):
            if (batch := data.microbatch(step, index)) is None:
                continue
            for column, n in enumerate(batch.inputs[0]):
                assert batch.inputs[:, column][batch.inputs[:, column] >= 0].tolist() == \
                    sources[n][sources[n] >= 0].tolist()
                ends = len(batch.targets) if batch.weights is None else int(batch.weights[:, column].sum())
                assert batch.targets[:ends, column].tolist() == targets[n][targets[n] >= 0].tolist()


def test_a_microbatch_is_of_one_bucket():
    sources, targets = some(count=60, longest=20)
    data = PairBuckets(sources, targets, 2, 4)
    longest = np.maximum((sources >= 0).sum(axis=1), (targets >= 0).sum(axis=1))
    for step in range(data.steps_per_epoch):
        for index in range(2):
            chosen = data.chosen(step, index)
            assert len(set((longest[chosen] - 1) // (20 // BUCKETS))) <= 1


def test_orders_are_functions_of_seed_and_epoch():
    one, same, other = (PairBuckets(*some(), 2, 3, seed) for seed in (1, 1, 2))
    steps = one.steps_per_epoch
    assert np.array_equal(one.chosen(0, 1), same.chosen(0, 1))
    assert any(not np.array_equal(one.chosen(s, 0), other.chosen(s, 0)) for s in range(steps))
    assert any(not np.array_equal(one.chosen(s, 0), one.chosen(s + steps, 0)) for s in range(steps))
    assert one.fingerprint == same.fingerprint != other.fingerprint


def test_the_last_step_of_an_epoch_has_fewer_microbatches():
    data = PairBuckets(*some(count=5, longest=1), 4, 2)
    assert data.steps_per_epoch == 1 and data.microbatch(0, 3) is None


# -- sources -----------------------------------------------------------------------------------------------------------
def test_numbers_are_those_of_num2words():
    pairs = load("numbers")
    drawn = [n for n in numbers.numbers_of(numbers.TRAIN + numbers.HELDOUT) if n >= numbers.ALWAYS_TRAINED][:50]
    told = {" ".join(numbers.split(num2words(n, lang="en"))): num2words(n, lang="es") for n in drawn}
    found = {pairs.text(source, 0): pairs.text(target) for source, target in zip(*(p[:50] for p in pairs.heldout))}
    assert found == told and len(found) == 50
    assert len(pairs.train[0]) == numbers.TRAIN and len(pairs.heldout[0]) == numbers.HELDOUT and not pairs.left_out
    train, heldout = ({pairs.text(row, 0) for row in part[0]} for part in (pairs.train, pairs.heldout))
    assert not train & heldout and "zero" in train and "<unk>" not in heldout
    assert pairs.text(pairs.numbers("Three thousand, two hundred and four"), 0) == "three thousand two hundred and four"
    assert all((row[row != PADDING][-1] == END) for row in pairs.train[1][:100])


def test_numbers_have_all_lengths():
    drawn = numbers.numbers_of(4000)
    digits = np.bincount([len(str(n)) for n in drawn], minlength=7)
    assert len(set(drawn)) == 4000 and digits[1] == 10 and digits[2] == 90 and (digits[4:] > 700).all()


@pytest.fixture
def few_numbers(monkeypatch):
    monkeypatch.setattr(numbers, "TRAIN", 2000)
    monkeypatch.setattr(numbers, "HELDOUT", 100)


def test_a_language_that_writes_numbers_in_one_word_is_read_by_letters(few_numbers):
    pairs = load("numbers:en-de")
    assert pairs.sizes["target_vocabulary"] < 40 and not pairs.left_out
    assert " " not in pairs.text(pairs.heldout[1][0]) and len(pairs.text(pairs.heldout[1][0])) > 2


@pytest.mark.parametrize("name, words", [("numbers:en", "two languages"), ("numbers:en-klingon", "klingon")])
def test_languages_that_there_are_not_are_refused(few_numbers, name, words):
    with pytest.raises(DataError, match=words):
        load(name)


def test_pairs_of_a_file_with_tabs(tmp_path):
    file = tmp_path / "pairs.tsv"
    file.write_text("".join(f"The cat {n}.\tEl gato, {n}.\n" for n in range(60)))
    pairs = load(f"pairs:{file}")
    assert len(pairs.train[0]) == 58 and len(pairs.heldout[0]) == 2
    assert [pairs.text(row) for row in pairs.heldout[1]] == ["el gato, <unk>.", "el gato, <unk>."]
    assert pairs.numbers("the DOG")[1] == UNKNOWN
    with pytest.raises(ValueError, match="no words"):
        pairs.numbers("  ")


def test_two_files_and_merges(tmp_path):
    for name, text in {"a.en": "low lower\nnew lower\n", "a.de": "nieder niedriger\nneu niedriger\n",
                       "codes": "#version: 0.2\nl o\nlo w</w>\nlo w\ne r</w>\nw er</w>\n"}.items():
        (tmp_path / name).write_text(text)
    pairs = load(f"pairs:{tmp_path}/a.en,{tmp_path}/a.de,{tmp_path}/codes")
    assert pairs.text(pairs.train[0][0], 0) == "low low@@ er"
    pieces = read_pieces(tmp_path / "codes", "")
    assert pieces.join(pieces.split("low lower newer")) == "low lower newer"


def test_two_files_and_a_vocabulary_of_pieces(tmp_path):
    for name, text in {"a.en": "lo@@ w\nlo@@ wer\n", "a.de": "ni@@ eder\nneu\n", "words": "lo@@ 7\nwer 3\nneu 1\n"}.items():
        (tmp_path / name).write_text(text)
    pairs = load(f"pairs:{tmp_path}/a.en,{tmp_path}/a.de,{tmp_path}/words")
    assert pairs.vocabularies[0] == ["<unk>", "<s>", "</s>", "lo@@", "wer", "neu"] == pairs.vocabularies[1]
    assert pairs.train[0][0].tolist() == [3, UNKNOWN]


def test_merges_are_made_in_their_order():
    """Of "abab" the merge of rank 0 is made everywhere before that of rank 1 is looked at."""
    pieces = Pieces(merges={("a", "b"): 0, ("ab", "a"): 1, ("b", "a"): 2})
    assert pieces.split("ababa") == ["ab@@", "ab@@", "a"]


@pytest.mark.parametrize("text, words", [("one tab\n", "line 1 has 0 tabs"), ("a\tb\tc\n", "line 1 has 2 tabs"), ("", "no sentence")])
def test_files_that_are_no_pairs_are_refused(tmp_path, text, words):
    (tmp_path / "x").write_text(text)
    with pytest.raises(DataError, match=words):
        load(f"pairs:{tmp_path}/x")


def test_files_of_other_lengths_are_refused(tmp_path):
    (tmp_path / "a").write_text("one\n")
    (tmp_path / "b").write_text("uno\ndos\n")
    with pytest.raises(DataError, match="has 1 lines and .* 2"):
        load(f"pairs:{tmp_path}/a,{tmp_path}/b")
    with pytest.raises(DataError, match="4 files"):
        load(f"pairs:{tmp_path}/a,b,c,d")


def test_long_pairs_are_left_out():
    pairs = pairs_of("x", [(["a"] * 3, ["b"]), (["a"], ["b"])], [(["a"], ["b"])], None, None, "", longest=2)
    assert len(pairs.train[0]) == 1 and pairs.left_out == 1


def test_cut_and_held_out():
    pairs = pairs_of("x", [(["a"], ["b", "c"])] * 9, [(["a"], ["b"])] * 80, str.split, " ".join, "")
    data, heldout = pairs.cut(RECIPE, 5)
    assert data.microbatches == 3 and data.size == 4 and len(heldout.sources) == 50 and not heldout.shuffle
    assert pairs.sizes == {"source_vocabulary": 4, "target_vocabulary": 5}
    with pytest.raises(ValueError):
        pairs.train[0][0, 0] = 7


def test_sentences_are_put_together_as_they_are_written():
    text = "¿qué has hecho? ella dijo: “no (nunca) lo sé”, y se fué..."
    assert join(split(text)) == text
    assert split("Don’t — go") == ["don't", "—", "go"]


# -- verses ------------------------------------------------------------------------------------------------------------
def module(directory, testaments):
    """Write a zText module: of each testament its slots, two to a block."""
    directory.mkdir(parents=True)
    for name, slots in testaments.items():
        packed, blocks, places = b"", b"", b""
        for first in range(0, len(slots), 2):
            some = [slot.encode() for slot in slots[first:first + 2]]
            block = zlib.compress(b"".join(some))
            blocks += struct.pack("<III", len(packed), len(block), sum(map(len, some)))
            packed += block
            start = 0
            for slot in some:
                places += struct.pack("<IIH", first // 2, start, len(slot))
                start += len(slot)
        for kind, content in (("bzs", blocks), ("bzv", places), ("bzz", packed)):
            (directory / f"{name}.{kind}").write_bytes(content)


def word(text, number):
    return f'<w lemma="strong:H{number:04}">{text}</w>'


@pytest.fixture
def bible(tmp_path):
    head = '<chapter n="1" osisID="Gen.1" sID="Gen.1"/>'
    second = '<chapter eID="Gen.1"/><chapter n="2" osisID="Gen.2" sID="Gen.2"/>'
    english = ["", "<title>Preface</title> words", head, word("In", 1) + " the <note>a note</note>" + word("start", 2),
               word("Other", 3), second, word("Two", 4) + "."]
    spanish = ["", head, word("En el", 1) + " principio", word("Otra cosa", 9), second, word("Dos", 4) + "."]
    for name, slots in zip(verses.EDITIONS, (english, spanish)):
        module(tmp_path / verses.MODULES / name, {"ot": slots, "nt": ["", ""]})
    return tmp_path


def test_verses_are_paired_by_chapter_and_number(bible):
    editions = [verses.read_edition(bible / verses.MODULES / name) for name in verses.EDITIONS]
    assert set(editions[0]) == set(editions[1]) == {"Gen.1.1", "Gen.1.2", "Gen.2.1"}
    assert verses.words_of(editions[0]["Gen.1.1"]) == "In the start"
    alike = [verse for verse in editions[0] if verses.alike(editions[0][verse], editions[1][verse])]
    assert alike == ["Gen.1.1", "Gen.2.1"]  # one of the two numbers of the first is enough: the other edition has one


def test_damaged_modules_are_refused(bible):
    file = bible / verses.MODULES / verses.EDITIONS[0] / "ot.bzz"
    file.write_bytes(file.read_bytes()[:-7])
    with pytest.raises(DataError, match="damaged"):
        load(f"verses:{bible}")
    with pytest.raises(DataError, match="apt-get download"):
        load(f"verses:{bible / 'nowhere'}")
