"""What the prose of notebook 10 says of its results is what is stored below its cells."""

import re

LESSON = "10_mesh"


def numbers(line):
    return [float(number.replace(",", "")) for number in re.findall(r"-?\d[\d,]*\.?\d*(?:e[+-]\d+)?", line)]


def test_the_layers_are_opposites(said):
    names = [line.split()[0] for line in said["opposites"][1:-3]]
    assert sum("conv" in name for name in names) == 13 and len(names) == 16
    whole, cut = (numbers(line) for line in said["opposites"][-3:-1])
    assert whole[0] < 15 and min(whole[1:]) > 99 and cut[0] > 85 and max(cut[1:]) < 1


def test_the_moves_do_what_is_said_of_them(said):
    assert said["moves-seen"][0] == "both groups the same: True"
    held = dict(re.findall(r"(\w+), (\d+ \D*?, then \d+)", next(line for line in said["moves-seen"] if "What" in line)))
    assert held == {"gather_rows": "2 entries, then 4", "gather_columns": "2 entries, then 4",
                    "own_rows": "2 entries, then 2", "own_columns": "2 entries, then 2",
                    "add_rows": "4 partial sums, then 2", "add_columns": "4 partial sums, then 2"}
    sums = [line.split()[-5:] for line in said["moves-seen"] if line.split()[:1] in (["add_rows"], ["add_columns"])]
    digits = {part for line in sums for part in line[-5:] if len(part) == 4 and not part.endswith("00")}
    assert digits == {"1111", "1212", "2121", "2222"}


def test_one_answer_and_every_byte(said):
    assert said["one-hash"] == ["1"]
    totals = []
    for line in filter(None, said["bytes"]):
        *_, values, values_counted, gradients, gradients_counted = numbers(line)
        assert (values, gradients) == (values_counted, gradients_counted)
        totals.append(values + gradients)
    assert totals == sorted(totals) and len(totals) == 3, "a larger K loses"


def test_the_crossings(said):
    table = (line.replace(",", "").split()[:5] for line in said["curve"] if re.match(r" +[\d,]+ ", line))
    rows = [list(map(float, row)) for row in table if len(row) == 5 and float(row[0]) % 200 == 0]
    best = [min(range(1, 5), key=lambda column: row[column]) for row in rows]
    assert best == sorted(best, reverse=True) and set(best) == {1, 2, 3, 4}
    assert len({row[1] for row in rows}) == 1, "whole layers do not care"


def test_the_memory_saved_is_not_that_of_small_images(said):
    saved = [list(map(float, re.findall(r"([\d.]+)%", line))) for line in said["memory"] if line]
    large, ten, small = saved
    assert max(small) < 67 and small[-1] == max(small), "at most: of any number of members"
    assert all(abs(each[1] - 67) < 0.5 for each in (large, ten))


def test_where_the_layers_border(said):
    rows = {line.split()[0]: line.split() for line in said["layers"][1:17]}
    stars = [float(row[1]) for name, row in rows.items() if "conv" in name]
    assert stars == sorted(stars, reverse=True)
    assert {row[6] for name, row in rows.items() if "conv" in name} == {"data,"}
    assert all(int(rows[f"stage4.conv{i}"][2]) < 64 for i in range(3)) and float(rows["connected0"][1]) == 2
    assert [rows[name][6] for name in ("connected0", "connected1", "output")] == ["hybrid,"] * 3
