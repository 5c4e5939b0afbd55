"""Slides of the lessons: what is shown, what is said, and that no answer stands below its question."""

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
pytest.importorskip("mdit_py_plugins", reason="the extra docs is not installed: make test-docs")
import slides  # noqa: E402

LESSONS = sorted(ROOT.glob("notebooks/*.ipynb"))
PICTURE = {"text/html": '<img src="pictures/a.svg" alt="a ring" />\n<details>numbers</details>', "text/plain": "a ring"}


def text(source):
    return {"cell_type": "markdown", "metadata": {}, "source": source}


def code(source="x", *outputs, tags=()):
    return {"cell_type": "code", "metadata": {"tags": list(tags)}, "source": source,
            "outputs": [{"data": data} if isinstance(data, dict) else {"text": data} for data in outputs]}


def made(*cells):
    return slides.slides({"cells": [text("# 1. Rings\n\n*Why?*\n\nProse."), *cells]})


def test_headings_and_lists_are_shown_and_prose_is_said():
    (title,), (slide,) = made(text("## Less\n\nLong [prose](a.py).\n\n- one\n- two\n\n**Why not?** Because."))
    assert "<h1>1. Rings</h1>" in title.shown[0] and "<em>Why?</em>" in title.shown[1] and "Prose." in title.notes[0]
    assert "Less" in slide.shown[0] and "<li>two</li>" in slide.shown[1]
    assert "<strong>Why not?</strong>" in slide.shown[2]
    assert "Because" not in "".join(slide.shown) and "Because" in slide.notes[1] and "Long prose" in slide.notes[0]


def test_a_prediction_ends_a_slide():
    asked, given = text("## Four\n\n**Predict:** on which rank?"), code("x", "on rank 3\n")
    _, (question, answer) = made(asked, given, text("Three."))
    assert "on rank 3" not in "".join(question.shown) and "on rank 3" in answer.shown[0] and "Three" in answer.notes[0]


def test_an_answer_repeats_its_heading_and_its_question():
    page = slides.page({"cells": [text("# 1. Rings\n\n*Why?*"), text("## Four *ranks*\n\n**Predict:** which $n$?"),
                                  code("x", "rank 3\n"), text("### Then\n\n- one"), code("x", PICTURE)]})
    assert page.count("<h3>Four <em>ranks</em></h3>") == 1 and page.count('<div class="asked">') == 1
    assert page.index('<div class="asked">') > page.index("Predict:")


def test_a_long_list_goes_on_below_the_same_heading():
    _, section = made(text("## Today\n\n" + "\n".join(f"- {number}" + " and so on" * 30 for number in range(8))))
    assert len(section) > 1 and {slide.title for slide in section} == {"Today"}
    assert "".join("".join(slide.shown) for slide in section).count("<li>") == 8


def test_what_follows_an_exercise_has_the_heading_of_its_section():
    _, section = made(text("## Rings\n\n### Exercise 1\n\nHow many?"), code("x", PICTURE))
    assert [slide.title for slide in section][-1] == "Rings"
    _, section = made(text("## Exercises\n\n### Exercise 1\n\nHow many?"), code("x", PICTURE))
    assert [slide.title for slide in section][-1] == "Exercises"


def test_a_table_stands_below_the_sentence_that_announces_it():
    _, (slide,) = made(text("## Rules\n\nA long story. These are the rules:\n\n| a | b |\n| --- | --- |\n| 1 | 2 |"))
    table = slide.shown[-1]
    assert table.startswith("<p>These are the rules:</p>") and "<td>2</td>" in table and "story" not in table


def test_what_a_list_says_one_can_do_stands_above_it():
    _, (slide,) = made(text("## Aim\n\nAfter it you can say\n\n- why"))
    assert slide.shown[-1].startswith("<p>After it you can say</p>") and "<li>why</li>" in slide.shown[-1]


def test_a_file_begins_with_its_first_class_and_code_is_as_large_as_fits():
    _, (slide,) = made(text("## Code"), code("x", {"text/markdown": "", "text/plain": '"""Doc."""\nimport a\n\nclass A:'}))
    assert slide.shown[-1] == '<pre style="font-size: 0.80em"><code>class A:</code></pre>'
    _, (slide,) = made(text("## Code"), code("x", 112 * "x"))
    assert slide.shown[-1].startswith('<pre style="font-size: 0.60em">')


def test_pictures_stand_alone_and_are_found_from_the_slides_folder():
    _, section = made(text("## Ring"), code("x", PICTURE), text("- more"))
    assert [len(slide.shown) for slide in section] == [2, 1]
    assert section[0].shown[1:] == ['<img src="../notebooks/pictures/a.svg" alt="a ring" />']


def test_solutions_exercises_and_long_outputs_are_left_out():
    _, (first, second) = made(
        text("## Do"), code("x", "line\n" * 30), text("### Exercise 1\n\nHow many?"),
        code("check(...)", tags=["exercise"]), text("<details><summary>Solution</summary>\n\nFour.\n\n</details>"))
    said = "".join(piece for slide in (first, second) for piece in slide.shown + slide.notes)
    assert "line" not in said and "Four" not in said and "check" not in said and "How many?" in second.shown[1]


def test_what_has_no_room_goes_on_the_next_slide():
    _, section = made(text("## Much"), *(text(f"- {word}" + " and so on" * 40) for word in ("one", "two", "three")))
    assert len(section) > 1 and all(slide.room >= 0 for slide in section)


def test_formulas_are_left_to_mathjax():
    assert r">\(a_1 &lt; b\)<" in slides.markdown().render("so $a_1 < b$")
    assert r"\[a_1\]" in slides.markdown().render("$$a_1$$")


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_every_lesson_has_slides(path):
    notebook = json.loads(path.read_text())
    made = slides.slides(notebook)
    assert len(made) >= 4 and all(slide.shown for section in made for slide in section)
    assert all(slide.title or slide.shown[0].startswith("<h") for section in made for slide in section)
    page = slides.page(notebook)
    assert "</html>" in page and all(part.startswith("<h") for part in page.split("<section>") if "</section>" in part)


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_slides_fit_the_screen(site, browser, path):
    page, errors = browser.new_page(viewport={"width": 1100, "height": 700}), []
    page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    page.goto((site / "slides" / f"{path.stem}.html").as_uri())
    page.wait_for_function("window.Reveal && Reveal.isReady()")
    high = page.evaluate("""() => [...document.querySelectorAll('.slides > section > section')].map(slide => {
        const place = Reveal.getIndices(slide); Reveal.slide(place.h, place.v); return slide.scrollHeight; })""")
    page.close()
    assert errors == [] and max(high) <= 700, high
