"""Pictures of trainings with a straggler: they say what they show."""

from refimpl.pictures import stragglers
from refimpl.pictures.stragglers import mean, plot_loss_curves, plot_speeds, plot_staleness


def test_bars_say_how_many_times_the_first_they_are():
    picture = plot_speeds({"no straggler": {"synchronous": 2000.0, "asynchronous": 2500.0},
                           "a slow one": {"synchronous": 1000.0, "asynchronous": 2200.0}}, "words")
    assert picture.alt == ("Words a second: no straggler: synchronous 2,000, asynchronous 2,500; a slow one: "
                           "synchronous 1,000, asynchronous 2,200")
    assert "1.25 ×" in picture.svg and "2.20 ×" in picture.svg
    assert picture.numbers.splitlines()[4].split() == ["a", "slow", "one", "asynchronous", "2,200", "2.2"]


def test_histograms_say_mean_and_most():
    picture = plot_staleness({"synchronous": {0: 4}, "asynchronous": {3: 6, 1: 2}, "none": {}})
    assert picture.alt == ("Staleness of pushes, in updates: synchronous, mean 0.00, at most 0; asynchronous, mean "
                           "2.50, at most 3; none, mean 0.00, at most 0")
    assert picture.numbers.splitlines()[2].split() == ["asynchronous", "1", "2", "25.0%"]
    assert mean({3: 6, 1: 2}) == 2.5 and mean({}) == 0


def test_each_bar_has_the_height_of_its_own_staleness(monkeypatch):
    bars = []
    monkeypatch.setattr(stragglers, "picture_of", lambda figure, *_: bars.extend(figure.axes[0].patches))
    plot_staleness({"asynchronous": {3: 6, 0: 1, 1: 3}})  # in the order of arrival, not of staleness
    assert {round(bar.get_x() + bar.get_width() / 2): bar.get_height() for bar in bars} == {0: 10, 1: 30, 3: 60}


def test_losses_stand_over_steps_and_over_time():
    picture = plot_loss_curves({"synchronous": [(1, 2.0, 9.0), (2, 4.0, 8.0)], "asynchronous": [(1, 0.5, 8.5)]})
    assert picture.alt == ("Training loss (nats) at the end: synchronous 8.000 after 4.0 s; asynchronous 8.500 after "
                           "0.5 s")
    assert "over steps" in picture.svg and "over time" in picture.svg
