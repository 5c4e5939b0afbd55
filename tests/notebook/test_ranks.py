"""Cells on ranks of real MPI: printed in rank order, values there and back, failures that name rank and line."""

import numpy as np
import pytest

from refimpl.notebook import ranks as on_ranks
from refimpl.notebook.cell_on_rank import read_values, told, write_values
from refimpl.notebook.ranks import CellRun, RanksFailed, run_on_ranks
from refimpl.notebook.results import STORE
from refimpl.transport.launch import launch


def test_printed_in_rank_order_and_values_both_ways():
    done = run_on_ranks(
        3, "print(f'{twice(rank)} of {size}', len(names))\nprint(table.sum() + rank)\n"
        "whole = comm.allreduce(rank)\ngive(whole=whole, mine=rank, table=table * 2, one=table[1])",
        before="def twice(x):\n    return 2 * x", values={"names": ["a", "b"], "table": np.arange(3.0)})
    assert str(done).splitlines() == [
        "rank 0: 0 of 3 2", "rank 0: 3.0", "rank 1: 2 of 3 2", "rank 1: 4.0", "rank 2: 4 of 3 2", "rank 2: 5.0"]
    assert done.given["whole"] == 3 and done.given["mine"] == 0 and done.given["one"] == 1.0
    np.testing.assert_array_equal(done.given["table"], [0, 2, 4])


def test_an_error_names_rank_and_line_and_shows_what_was_printed():
    with pytest.raises(RanksFailed) as failed:
        run_on_ranks(2, "print('here', flush=True)\nif rank == 1:\n    wrong = 1 / 0\ncomm.Barrier()")
    said = str(failed.value)
    assert said.startswith("on rank 1 of 2:\ncell, line 3: wrong = 1 / 0\nZeroDivisionError: division by zero")
    assert "rank 1: here" in said and failed.value._render_traceback_() == [f"RanksFailed: {said}"]


def test_ranks_that_wait_for_ever_are_ended():
    with pytest.raises(RanksFailed, match="not done after 3 s: does a rank wait(?s:.*)rank 0: before"):
        run_on_ranks(2, "print('before', flush=True)\nif rank == 0:\n    comm.recv(source=1)", timeout=3)


def test_one_rank_needs_no_prefix():
    assert str(CellRun(("alone\n",))) == "alone\n"


def test_a_mistake_of_syntax_is_told_with_its_line():
    with pytest.raises(SyntaxError) as failed:
        compile("x = 1\ny = = 2\n", "cell", "exec")
    assert told(failed.value).startswith("cell, line 2: y = = 2\nSyntaxError: ")


def test_values_that_are_no_plain_data_are_refused(tmp_path):
    for value in ({1, 2}, object(), np.array(["a", None], object)):
        with pytest.raises(TypeError, match="strange is .*, which does not travel"):
            write_values(tmp_path, {"strange": value})


def test_values_come_back_as_they_were(tmp_path):
    assert read_values(tmp_path) == {}
    values = {"x": 1.5, "text": "é", "nothing": None, "nested": {"a": [1, 2, {"b": True}]}, "n": np.int64(7)}
    write_values(tmp_path, {**values, "array": np.eye(2, dtype="float32")})
    back = read_values(tmp_path)
    assert back.pop("array").dtype == np.float32 and back == values


def test_each_rank_may_have_an_emulated_machine_whose_result_is_stored(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv(STORE, "1")
    monkeypatch.setattr(on_ranks, "run_on_cluster",
                        lambda ranks, each, rate, *rest, **more: launch(ranks, *rest, **more))
    first = run_on_ranks(2, "print('hello')\ngive(seconds=[0.5, 1.5])", rate="200mbit", stored="kept")
    assert first == CellRun(("hello\n",) * 2, {"seconds": [0.5, 1.5]})
    monkeypatch.delenv(STORE)
    assert run_on_ranks(2, "", rate="200mbit", stored="kept", keep=True) == first
    assert "2 emulated machines of 1 rank, 200mbit" in (tmp_path / "results" / "kept.json").read_text()
