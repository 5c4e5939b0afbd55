"""Arrays copied and added on a GPU, several in a launch."""

from kernels.cuda import each_of_many


@each_of_many(own=2)
def copy_elements(place, source, target):
    """Copy an element."""
    target[place] = source[place]


@each_of_many(own=2)
def add_elements(place, source, target):
    """Add an element."""
    target[place] += source[place]


@each_of_many(own=3)
def scale_elements(place, source, target, factor):
    """Write an element times the factor."""
    target[place] = source[place] * factor
