"""A picture with sliders. Without a kernel (on a page, in a printed lesson) it is the initial picture."""

from typing import Any, Callable, NamedTuple, Sequence

from refimpl.pictures.picture import Picture

WIDGET = "application/vnd.jupyter.widget-view+json"
"""The part of an output that is sliders: of a living kernel, so never stored."""


class Slider(NamedTuple):
    """The label of a slider, its values, and its initial value."""

    label: str
    values: Sequence[Any]
    start: Any


class Explorer:
    """The output of ``explore``: Jupyter shows sliders above the picture, anything else the picture."""

    def __init__(self, draw: Callable[..., Picture], sliders: dict[str, Slider]):
        self.draw, self.sliders = draw, sliders
        self.at_start = draw(**{name: slider.start for name, slider in sliders.items()})

    def widget(self):
        """Return sliders and picture as a widget of ipywidgets. Local. Raises ImportError without ipywidgets."""
        from ipywidgets import HTML, SelectionSlider, VBox

        shown = HTML(self.at_start.svg)
        moved = {name: SelectionSlider(options=[(f"{value:,}" if isinstance(value, int) else str(value), value)
                                                for value in slider.values],
                                       value=slider.start, description=slider.label, continuous_update=False,
                                       style={"description_width": "14em"}, layout={"width": "34em"})
                 for name, slider in self.sliders.items()}

        def redraw(_change):
            shown.value = self.draw(**{name: slider.value for name, slider in moved.items()}).svg

        for slider in moved.values():
            slider.observe(redraw, names="value")
        return VBox([*moved.values(), shown])

    def _repr_mimebundle_(self, include=None, exclude=None):
        still = self.at_start._repr_mimebundle_()
        try:
            return {WIDGET: self.widget()._repr_mimebundle_()[WIDGET], **still}
        except ImportError:
            return still


def explore(draw: Callable[..., Picture], **sliders: Slider) -> Explorer:
    """Return a picture with sliders: ``draw`` is called with the value of each slider, by name. Local.

        explore(lambda ranks: plot(ranks), ranks=Slider("ranks N", [2, 4, 8], start=4))

    Raises ValueError if the initial value of a slider is not one of its values.
    """
    for name, slider in sliders.items():
        if slider.start not in slider.values:
            raise ValueError(f"slider {name} begins at {slider.start}, which is none of its values: {slider.values}")
    return Explorer(draw, sliders)
