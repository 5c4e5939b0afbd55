"""The picture of a partition search: samples in the order of the walk, the curve, the choice."""

from refimpl.pictures.plans import draw_search, fit_of, plot_search
from refimpl.plan.partitions.search import Fit, PartitionSearch

CURVE = Fit(0.1, 0.4, 0.01)


def searched():
    search = PartitionSearch(4, 1000)
    while (count := search.propose()) is not None:
        search.measured(count, CURVE.seconds(count))
    return search.to_json()


def test_samples_curve_and_choice_are_told(tmp_path):
    found = searched()
    picture = draw_search(found)
    assert "order: 4 (240 ms), 8 (230 ms), 16 (285 ms), 2 (320 ms), 6 (227 ms); chosen: P = 6." in picture.alt
    assert picture.numbers.splitlines()[1].split() == ["1", "4", "240.0", "240.0"]
    assert abs(fit_of(found).theta1 - 0.4) < 1e-9 and "chosen: P = 6" in picture.svg
    cut_short = draw_search({**found, "finished": False})
    assert "P = 6 when the training ended, before the search" in cut_short.alt and "chosen" not in cut_short.text
    assert plot_search(found, tmp_path / "search.png").read_bytes().startswith(b"\x89PNG")


def test_without_a_curve_and_with_one_sample():
    found = {"samples": [{"partitions": 3, "seconds": 0.5}], "theta": None, "chosen": 3}
    picture = draw_search(found)
    assert fit_of(found) is None and picture.numbers.splitlines()[1].split() == ["1", "3", "500.0"]
