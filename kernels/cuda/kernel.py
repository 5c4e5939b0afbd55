"""A GPU kernel is written once, as a body for one element or for one row, without threads.

``@each_element`` body(row, column, *arguments) runs for every element of a (rows, columns) grid, in any order.
``@each_row``     lane(row, lane, lanes, *arguments) returns a partial sum (or maximum) of a row. The partial sums are
                  folded in halves (lane l += lane l + lanes / 2, then + lanes / 4, ..., then + 1), and the total is
                  passed to the kernel's ``finish``.

Both forms are deterministic: no number is written by several threads, and the order of a sum depends only on shapes.
The same body runs on a GPU (``ptx``), in Numba's CUDA simulator and in plain loops on the CPU (tests); ``load``
decides. Arguments are C-contiguous device arrays, seen as flat pointers, and scalars: int, or of one NumPy type
(``scalar``). Combine Python literals only with integers: Numba turns 1 + float32 into a float64. Write np.int64(x) for
int(x), which Numba compiles only where there is a CUDA driver.
"""

import inspect

import numba
import numpy as np

from kernels.compiled import inlined

MOST_LANES = 256
THREADS = 256  # of a block: a power of two
MOST_BLOCKS = 65_535  # CUDA's limit for the grid's second axis; further blocks go along the third

# A thread computes one element, without a loop over rows: a compiler unrolls a loop and divides 64-bit numbers to count
# its rounds, which takes longer than most bodies.

ELEMENT = """
def {name}(rows_, columns_, {names}):
    column_ = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    row_ = (cuda.blockIdx.z * cuda.gridDim.y + cuda.blockIdx.y) * cuda.blockDim.y + cuda.threadIdx.y
    if column_ < columns_ and row_ < rows_:
        body(row_, column_, {names})
"""

ROW = """
def {name}(rows_, lanes_, {names}):
    partial_ = cuda.shared.array({most}, {partial}_dtype)
    row_, lane_ = cuda.blockIdx.x, cuda.threadIdx.x
    partial_[lane_] = body(row_, lane_, lanes_, {names})
    cuda.syncthreads()
    half_ = lanes_ // 2
    while half_ > 0:
        if lane_ < half_:
            partial_[lane_] = {fold}
        cuda.syncthreads()
        half_ //= 2
    if lane_ == 0:
        finish(row_, partial_[0], {names})
"""


ONE, OTHER = "partial_[lane_]", "partial_[lane_ + half_]"
FOLDS = {"+": f"{ONE} + {OTHER}", "max": f"{ONE} if {ONE} > {OTHER} else {OTHER}"}
"""How the partial sums of two lanes become one."""


def helper(function):
    """Return a function that bodies may call; it is inlined. A decorator."""
    return function if numba.config.ENABLE_CUDASIM else inlined(function)


def scalar(array, value):
    """Return a number in the dtype of an array, for a kernel that combines both. Local."""
    return array.dtype.type(value)


class Kernel:
    """A body and its launcher. body, finish: Python functions.  template: the CUDA function around them.

    ``kernel(rows, columns, *arguments)`` launches it on CuPy's current stream. In each_row ``columns`` are the lanes.
    """

    threads = THREADS

    def __init__(self, body, template, finish=None, fold="+", partial="float64"):
        self.body, self.finish, self.template, self.partial = body, finish, template, partial
        self.fold = FOLDS[fold]
        self.name = body.__name__
        skipped = 2 if finish is None else 3  # row, column, or row, lane, lanes
        self.names = list(inspect.signature(body).parameters)[skipped:]
        self.loaded, self.launchers = {}, {}  # by kinds, and by characters of dtypes
        self.__doc__ = body.__doc__

    def __call__(self, rows, columns, *arguments):
        if not rows or not columns:
            return
        kinds = tuple(["q" if type(a) is int else a.dtype.char for a in arguments])  # quick: this runs for every launch
        function = self.launchers.get(kinds)
        if function is None:
            told = tuple(map(kind_of, arguments))
            function = self.launchers[kinds] = self.loaded[told] = load(self, told)
        function(*self.shape(rows, columns), (rows, columns, *arguments))

    def shape(self, rows, columns):
        """Return (grid, block) for CUDA: the numbers of blocks, and of threads in a block, along each axis.

        Raises ValueError if the number of lanes cannot be folded in halves.
        """
        if self.finish is not None:
            if columns > MOST_LANES or columns & (columns - 1):
                raise ValueError(f"{self.name} with {columns} lanes: give it a power of two up to {MOST_LANES}")
            return (rows,), (columns,)
        along = min(THREADS, 1 << (columns - 1).bit_length())
        down = THREADS // along
        blocks = -(-rows // down)
        across = min(blocks, MOST_BLOCKS)
        return (-(-columns // along), across, -(-blocks // across)), (along, down)

    def source(self):
        """Return the text of the CUDA function."""
        return self.filled(self.template)

    def filled(self, template):
        """Return a template with this kernel's names filled in."""
        return template.format(name=self.name, names=", ".join(self.names), most=MOST_LANES, fold=self.fold,
                               partial=self.partial)

    def dtypes(self, kinds, convert=np.dtype) -> dict:
        """Return NAME_dtype -> element type of each array argument, and of two more, for templates with arrays."""
        found = {name: kind[0] for name, kind in zip(self.names, kinds) if kind[1:]} | {"float64": "d", "int64": "q"}
        return {f"{name}_dtype": convert(np.dtype(char)) for name, char in found.items()}


def each_element(body):
    """Return a kernel that runs ``body(row, column, *arguments)`` for each element of a grid. A decorator."""
    return Kernel(body, ELEMENT)


def each_row(finish, fold="+", partial="float64"):
    """Return a kernel of a lane's partial sum, whose total goes to ``finish(row, total, *arguments)``. A decorator.

    fold: "+" or "max".  partial: dtype of the partial sums: "float64", "int64", or the name of an array argument.
    """
    return lambda body: Kernel(body, ROW, finish, fold, partial)


def kind_of(argument) -> str:
    """Return an argument's kind: a dtype's character, followed by * for an array; q for an int."""
    if isinstance(argument, int):
        return "q"
    return argument.dtype.char if isinstance(argument, np.generic) else argument.dtype.char + "*"


def load(kernel, kinds):
    """Return the launcher of a kernel for arguments of these kinds: function(grid, block, arguments). Local.

    Tests replace this function to run kernels without a GPU.
    """
    from kernels.cuda import ptx  # needs CUDA's compiler, which only machines with a GPU have

    return ptx.load(kernel, kinds)
