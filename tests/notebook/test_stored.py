"""The stored form of a notebook: text, pictures beside it."""

import pytest

nbformat = pytest.importorskip("nbformat", reason="the extra notebooks is not installed")

from refimpl.pictures.picture import Picture  # noqa: E402
from refimpl.notebook.stored import normalised, write  # noqa: E402

new = nbformat.v4


def cell(source="x", name="cell-1", tags=(), outputs=(), count=3):
    made = new.new_code_cell(source, id=name, outputs=list(outputs), execution_count=count)
    made.metadata = nbformat.from_dict({"tags": list(tags), "execution": {"iopub": "2026"}})
    return made


def printed(text):
    return new.new_output("stream", name="stdout", text=text)


def shown(picture):
    return new.new_output("execute_result", data=picture._repr_mimebundle_(), execution_count=9)


def notebook(*cells):
    mine = {"widgets": {}, "kernelspec": {"name": "mine", "display_name": "Mine"}}
    return new.new_notebook(cells=list(cells), metadata=mine)


def test_what_is_of_one_run_or_machine_is_left_out():
    tidy, pictures = normalised(notebook(cell(outputs=[printed("a\n\x1b[31mb\x1b[0m\n")])), "1_x")
    (stored,) = tidy.cells
    assert stored.execution_count is None and dict(stored.metadata) == {} and pictures == {}
    assert [output.text for output in stored.outputs] == ["a\nb\n"]
    assert tidy.metadata.kernelspec.name == "python3" and "widgets" not in tidy.metadata
    assert normalised(tidy, "1_x")[0] == tidy, "once is enough"


def test_a_picture_becomes_a_file_with_its_words_in_the_output():
    picture = Picture('<svg viewBox="0 0 1 1"></svg>', "a < b over time", "a  b\n1  2")
    tidy, pictures = normalised(notebook(cell(name="ways", outputs=[shown(picture), shown(picture)])), "3_x")
    assert list(pictures) == ["3_x-ways.svg", "3_x-ways-2.svg"] and pictures["3_x-ways.svg"] == picture.svg
    data = tidy.cells[0].outputs[0].data
    assert set(data) == {"text/plain", "text/html"} and data["text/plain"] == picture.text
    assert '<img src="pictures/3_x-ways.svg" alt="a &lt; b over time" />' in data["text/html"]
    assert "<pre>a  b\n1  2</pre>" in data["text/html"]


def test_pictures_are_written_and_those_of_before_removed(tmp_path):
    (tmp_path / "pictures").mkdir()
    (tmp_path / "pictures" / "3_x-old.svg").write_text("old")
    (tmp_path / "pictures" / "4_y-other.svg").write_text("other")
    made = notebook(cell(name="new", outputs=[shown(Picture("<svg/>", "new"))]))
    write(*normalised(made, "3_x"), tmp_path / "3_x.ipynb")
    assert sorted(file.name for file in (tmp_path / "pictures").iterdir()) == ["3_x-new.svg", "4_y-other.svg"]
    assert nbformat.read(tmp_path / "3_x.ipynb", 4) == normalised(made, "3_x")[0]
