"""Several small arrays in one launch. A launch of a small array takes longer on the host than on the GPU.

``@each_of_many(own)`` body(place, *own arguments, *shared arguments) runs for every element ``place`` of every array.
The first ``own`` arguments (arrays or scalars) belong to one array; all arrays share the others.
"""

import inspect
from collections import defaultdict
from operator import itemgetter

import numpy as np

from kernels.cuda.kernel import Kernel

MANY = 8  # arrays of a launch
MOST_IDLE = 2**20  # the most idle threads of a launch, past the ends of its arrays

HEAD = """
def {name}(rows_, columns_, {names}):
    place_ = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    number_ = (cuda.blockIdx.z * cuda.gridDim.y + cuda.blockIdx.y) * cuda.blockDim.y + cuda.threadIdx.y
"""
BRANCH = """    if number_ == {k} and place_ < size{k}_:
        body(place_, {arguments})
"""
# The kernel itself has the branches: Numba does not inline a call with more than 30 arguments.


class ManyKernel(Kernel):
    """A kernel over several arrays. ``kernel(items, *shared)``: items: for each array (its size, *own arguments)."""

    def __init__(self, body, own):
        super().__init__(body, HEAD)
        names = list(inspect.signature(body).parameters)[1:]
        mine, shared = names[:own], names[own:]
        each = [[f"{name}{k}_" for name in mine] for k in range(MANY)]
        self.branches = "".join(BRANCH.format(k=k, arguments=", ".join(each[k] + shared)) for k in range(MANY))
        self.template = HEAD + self.branches
        self.names = [*(f"size{k}_" for k in range(MANY)), *(name for one in each for name in one), *shared]

    def __call__(self, items, *shared):
        for group in groups(items):
            nothing = (0, *(one if isinstance(one, (int, np.generic)) else one.reshape(-1)[:0] for one in group[0][1:]))
            padded = group + [nothing] * (MANY - len(group))
            sizes, own = [item[0] for item in padded], [one for item in padded for one in item[1:]]
            super().__call__(len(group), sizes[0], *sizes, *own, *shared)


def each_of_many(own):
    """Return a kernel of ``body(place, *own, *shared)``, over several arrays in one launch. A decorator."""
    return lambda body: ManyKernel(body, own)


def groups(items):
    """Yield the items of one launch after the other: of equal kinds and similar sizes, the largest first."""
    of_kinds = defaultdict(list)
    for item in items:
        of_kinds[tuple([getattr(one, "dtype", None) for one in item[1:]])].append(item)
    for alike in of_kinds.values():
        alike.sort(key=itemgetter(0), reverse=True)
        first, total = 0, 0
        for number, (size, *_) in enumerate(alike):
            count, total = number + 1 - first, total + size
            if count > MANY or alike[first][0] * count - total > MOST_IDLE:
                yield alike[first:number]
                first, total = number, size
        yield alike[first:]
