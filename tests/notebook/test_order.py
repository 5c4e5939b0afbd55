"""Notebooks are in the order of their numbers, and a number means one of them."""

import pytest

from refimpl.notebook.__main__ import chosen, main


@pytest.mark.parametrize("names, found", [
    ([], ["1_a", "2_b", "10_c", "11_a"]), (["1"], ["1_a"]), (["10"], ["10_c"]),
    (["1_a", "11_", "2"], ["1_a", "11_a", "2_b"])])
def test_ten_comes_after_nine(names, found, tmp_path):
    for name in ("10_c", "1_a", "11_a", "2_b"):
        (tmp_path / f"{name}.ipynb").touch()
    assert [path.stem for path in chosen(names, tmp_path)] == found


def test_a_name_that_is_none_says_which_there_are(tmp_path):
    for name in ("10_c", "2_b"):
        (tmp_path / f"{name}.ipynb").touch()
    with pytest.raises(ValueError, match="no notebook '1'; there are 2_b, 10_c"):
        chosen(["1"], tmp_path)


def test_the_command_says_so(capsys):
    assert main(["store", "no-such-notebook"]) == 1 and "no notebook" in capsys.readouterr().err
