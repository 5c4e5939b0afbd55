"""Do a training's numbers lie where the enclosures say that every correct training's must?"""

from dataclasses import dataclass

import numpy as np


class OutsideError(AssertionError):
    """A number that no correct evaluation could have computed."""


@dataclass(frozen=True)
class Distance:
    """How far an array is from the middle of its enclosure. distance, radius: the largest.  size: largest value.

    share: largest distance as a part of that element's radius: above 1 the number is proved wrong.
    outside: how many elements are.  where: the index of the worst.
    """

    name: str
    distance: float
    radius: float
    size: float
    share: float
    outside: int
    where: tuple


def distance(name, enclosure, found) -> Distance:
    """Return the distance of a NumPy array or number to its enclosure. Raises ValueError for another shape. Local."""
    found = np.asarray(found, np.float64)
    if found.shape != enclosure.shape:
        raise ValueError(f"{name!r} has shape {found.shape}, its enclosure {enclosure.shape}")
    far = np.abs(found - enclosure.middle)
    unknown = np.isnan(far) | np.isnan(enclosure.radius)
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(far <= enclosure.radius, np.where(far == 0, 0.0, far / enclosure.radius),
                         np.where(unknown, np.inf, np.maximum(far / enclosure.radius, np.nextafter(1, 2))))
    worst = np.unravel_index(int(share.argmax()), share.shape) if share.size else ()
    return Distance(name, float(far.max(initial=0)), float(enclosure.radius.max(initial=0)),
                    float(np.abs(found).max(initial=0)), float(share.max(initial=0)), int((share > 1).sum()),
                    tuple(int(i) for i in worst))


def distances(state, arrays) -> list[Distance]:
    """Return the distance of each array of a training, by key, to the state's enclosures. Local.

    arrays: key -> NumPy array, as in a checkpoint (``training.run.whole``). Raises ValueError if one is missing.
    """
    if missing := sorted(set(state.arrays) ^ set(arrays)):
        raise ValueError(f"only one of the training and its enclosure has {', '.join(missing)}")
    return [distance(key, enclosure, arrays[key]) for key, enclosure in state.arrays.items()]


def check(step: int, found: list[Distance]):
    """Raise OutsideError naming the array that is farthest outside, and by how much. Local."""
    worst = max(found, key=lambda one: one.share)
    if worst.share > 1:
        others = sum(one.outside > 0 for one in found) - 1
        raise OutsideError(
            f"after step {step} element {list(worst.where)} of {worst.name!r} lies outside its enclosure, "
            f"{worst.share:.4g} radii from the middle, with {worst.outside - 1} more of the array and elements of "
            f"{others} other arrays: no order of summation and no rounding explains that")


def within(state, arrays) -> list[Distance]:
    """Return the distances if every number lies in its enclosure. Raises OutsideError. Local."""
    found = distances(state, arrays)
    check(state.step, found)
    return found
