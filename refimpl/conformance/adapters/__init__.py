"""The adapters of this project. ``functions_of`` makes the functions of a module from one class."""

from functools import cache


def functions_of(cls, make=None):
    """Return the ``__getattr__`` of a module that is an adapter: its functions are those of one ``cls``.

    make: makes it, when the first function is asked for; None: the class itself, without arguments.
    """
    made = cache(make or cls)

    def function(name):
        if name.startswith("_") or not hasattr(cls, name):
            raise AttributeError(f"the adapter {cls.__name__} has no {name!r}")
        return getattr(made(), name)

    return function
