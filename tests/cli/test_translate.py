"""``translate``: a trained model answers in words, and what cannot be answered is refused in words."""

import io
import json
import sys

import pytest

from refimpl.cli import main

WORDS = ("one", "uno"), ("two", "dos"), ("three", "tres"), ("four", "cuatro"), ("red", "rojo"), ("green", "verde")


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run that has learnt to say pairs of words: every pair of WORDS, one after the other, in the other language."""
    place = tmp_path_factory.mktemp("translate")
    lines = [f"{a} {b}\t{x} {y}\n" for a, x in WORDS for b, y in WORDS]
    (place / "pairs.tsv").write_text("".join(lines * 3))
    assert main(["train", "nmt", "--data", f"pairs:{place}/pairs.tsv", "--set", "units=24", "--set", "keep=1.0",
                 "--microbatches", "2", "--steps", "60", "--learning-rate", "0.03", "--rate", "constant",
                 "--output", f"{place}/run"]) == 0
    return place / "run"


@pytest.mark.parametrize("beam", ["1", "4"])
def test_it_translates_what_it_was_trained_on(trained, capsys, beam):
    assert main(["translate", "--beam", beam, str(trained), "two green", "Red ONE"]) == 0
    assert capsys.readouterr().out == "dos verde\nrojo uno\n"


def test_standard_input_and_json(trained, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO("four four\nthree\n"))
    assert main(["translate", str(trained), "--json"]) == 0
    first, _ = map(json.loads, capsys.readouterr().out.splitlines())
    assert first == {"source": "four four", "translation": "cuatro cuatro"}


def test_the_held_out_set_is_scored(trained, capsys):
    assert main(["translate", str(trained), "--heldout", "3", "--json"]) == 0
    score = json.loads(capsys.readouterr().out)
    assert score["sentences"] == 3 and score["exact"] == 1
    assert main(["translate", str(trained), "--heldout", "3"]) == 0
    assert "3 held-out sentences: 100.0% translated exactly" in capsys.readouterr().out


@pytest.mark.parametrize("arguments, words", [
    (["--heldout", "2", "one"], "give sentences, or --heldout"), ([" "], "has no words to translate")])
def test_what_cannot_be_translated_is_refused(trained, capsys, arguments, words):
    assert main(["translate", *arguments[:-1], str(trained), arguments[-1]]) == 1
    assert words in capsys.readouterr().err


def test_runs_that_do_not_translate_are_refused(tmp_path, capsys):
    for place, words in (tmp_path, "holds no checkpoint"), (tmp_path / "none", "is no directory"):
        assert main(["translate", str(place), "one"]) == 1
        said = capsys.readouterr().err
        assert f"{place} {words}: give the run directory of a training" in said and "--resume" not in said
    run = tmp_path / "lm"
    main(["train", "lm", "--preset", "tiny", "--data", "synthetic:50", "--steps", "1", "--output", str(run)])
    capsys.readouterr()
    assert main(["translate", str(run), "one"]) == 1
    assert "a training of lm, which does not translate" in capsys.readouterr().err


def test_without_sacrebleu_it_says_what_to_install(trained, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "sacrebleu.metrics", None)
    assert main(["translate", str(trained), "--heldout", "1"]) == 0
    assert "pip install sacrebleu" in capsys.readouterr().out
