"""Numbers in prose: what must be held, what holds it, and what is seen where nothing does."""

import json

import pytest

from refimpl.notebook.__main__ import FOLDER, in_order
from refimpl.notebook.numbers import claims, complaints, unheld


def cell(kind, source, held=None, outputs=()):
    return {"cell_type": kind, "id": "a", "source": source, "metadata": {"held": held} if held else {},
            "outputs": list(outputs)}


def unheld_of(*cells):
    return unheld({"cells": cells}, known="The paper's vocabulary has 793,470 words.")


def printed(text):
    return {"output_type": "stream", "text": text}


def drawn(words):
    return {"output_type": "display_data", "data": {"text/plain": words, "text/html": "<img src='a.svg'>"}}


@pytest.mark.parametrize("path", in_order(FOLDER), ids=lambda path: path.stem)
def test_every_number_in_a_lessons_prose_is_held(path):
    assert unheld(json.loads(path.read_text())) == []


@pytest.mark.parametrize(("text", "found"), [
    ("below 0.03, or 12 %, or 24 times as much", ["0.03", "12", "24"]),
    ("1,024 ranks; $1{,}5$", ["1024"]),
    ("4 ranks on 16 machines, notebook 6, since 2009, x64", []),
    ("1.34 × faster, in 2019, of 25,467 words", ["1.34", "25467"]),
])
def test_what_must_be_held(text, found):
    assert claims(text) == found


def test_a_number_that_nothing_computes_is_seen():
    prose = cell("markdown", "It wins below 0.03, `--rate 0.5`, [there](0.7/x).")
    assert unheld_of(prose) == ["cell 0 (a): nothing computes 0.03"]
    assert unheld_of(prose, cell("code", "x", outputs=[printed("crossing 0.03\n")])) == []
    assert unheld_of(cell("markdown", prose["source"], {"0.03": "crossing"})) == []
    assert unheld_of(cell("markdown", "Of 793,470 words, 264 times as many.", {"264 times": "big / small"})) == []


def test_the_words_of_a_picture_are_prose_and_hold_nothing():
    code = cell("code", "plot('the server wins above 0.03, always')", outputs=[drawn("it wins above 0.03\n1 2")])
    assert unheld_of(code) == ["cell 0 (a): nothing computes 0.03"]
    assert unheld_of(cell("code", "plot(f'the server wins above {crossing:.3f}, always')")) == []
    assert unheld_of(code, cell("code", "%%ranks 4\nlimit = 0.03")) == []
    assert unheld_of(cell("code", "'this is 0 or 1'\nrows = 25_600"), cell("markdown", "Of 25,600 rows.")) == []


def test_a_phrase_that_is_held_and_not_said_is_seen():
    assert unheld_of(cell("markdown", "it is below\n0.012", {"below 0.012": "crossing"})) == []
    assert unheld_of(cell("markdown", "below 0.012", {"0.03": "crossing", "0.012": "crossing"})) == [
        "cell 0 (a): holds '0.03', and does not say it"]


@pytest.mark.parametrize(("held", "said"), [
    ({"0.012": "crossing"}, []),
    ({"1,234": "1233.6", "twice as fast": "crossing < 1"}, []),
    ({"0.03": "crossing"}, ["it says '0.03', but crossing gives 0.01"]),
    ({"twice as fast": "crossing > 1"}, ["it says 'twice as fast', but crossing > 1 gives False"]),
    ({"0.03": "missing"}, ["it says '0.03', but missing raises NameError: name 'missing' is not defined"]),
])
def test_what_the_kernel_does_not_find_is_said(held, said):
    assert complaints(held, {"crossing": 0.0119}) == said
