"""Tools for notebooks: cells on several ranks, trainings started from a cell, exercises that are checked.

    %load_ext refimpl.notebook
"""

from refimpl.handed_on import handed_on

_HOME = {
    "train_on_ranks": "refimpl.notebook.training",
    "Slider": "refimpl.notebook.sliders",
    "explore": "refimpl.notebook.sliders",
    "show_source": "refimpl.notebook.source",
    "exercise": "refimpl.notebook.exercises",
    "right": "refimpl.notebook.exercises",
    "wrong": "refimpl.notebook.exercises",
}

__all__ = sorted(_HOME)
__getattr__, __dir__ = handed_on(__name__, _HOME)


def load_ipython_extension(shell):
    """Register %%ranks and %%everywhere in IPython, for %load_ext. Local."""
    from refimpl.notebook.magic import RankMagics

    shell.register_magics(RankMagics)
