"""The stored form of a notebook: text, pictures beside it; what is stale is seen."""

import pytest

nbformat = pytest.importorskip("nbformat", reason="the extra notebooks is not installed")

from refimpl.pictures.picture import Picture  # noqa: E402
from refimpl.notebook.__main__ import chosen, main  # noqa: E402
from refimpl.notebook.stored import differences, missing_pictures, normalised, write  # noqa: E402

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
    tidy, pictures = normalised(notebook(cell(outputs=[printed("a\n"), printed("\x1b[31mb\x1b[0m\n")])), "1_x")
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
    stored = nbformat.read(tmp_path / "3_x.ipynb", 4)
    assert missing_pictures(stored, tmp_path / "3_x.ipynb") == []
    (tmp_path / "pictures" / "3_x-new.svg").unlink()
    assert missing_pictures(stored, tmp_path / "3_x.ipynb") == ["pictures/3_x-new.svg: missing"]


@pytest.mark.parametrize(("before", "after", "stale"), [
    ([printed("4 ranks\n")], [printed("4 ranks\n")], False),
    ([printed("4 ranks\n")], [printed("5 ranks\n")], True),
    ([printed("4 ranks\n")], [], True),
    ([shown(Picture("<svg/>", "same", "1 2"))], [shown(Picture("<svg >", "same", "1 2"))], False),
    ([shown(Picture("<svg/>", "same", "1 2"))], [shown(Picture("<svg/>", "same", "1 3"))], True),
])
def test_a_stale_output_is_seen_unless_it_is_a_measurement(before, after, stale):
    def compared(tags):
        old, new_ = (normalised(notebook(cell(tags=tags, outputs=outputs)), "1")[0] for outputs in (before, after))
        return differences(old, new_)

    found = compared(())
    assert len(found) == stale and (not stale or "cell 0 (cell-1): stale output" in found[0])
    assert compared(("measured",)) == []


def test_another_number_of_cells_is_stale():
    one, two = (normalised(notebook(*(cell(name=f"c{i}") for i in range(n))), "1")[0] for n in (1, 2))
    assert differences(one, two) == ["2 cells, 1 stored"]


def test_notebooks_are_chosen_by_the_beginning_of_their_names(tmp_path, capsys):
    for name in ("1_adding_up", "2_server", "10_more"):
        (tmp_path / f"{name}.ipynb").write_text("{}")
    assert [p.stem for p in chosen(["2", "1_"], tmp_path)] == ["2_server", "1_adding_up"]
    assert len(chosen([], tmp_path)) == 3
    with pytest.raises(ValueError, match="no notebook '7'; there are 1_adding_up, 2_server, 10_more"):
        chosen(["7"], tmp_path)
    assert main(["check", "no-such-notebook"]) == 1 and "no notebook" in capsys.readouterr().err
