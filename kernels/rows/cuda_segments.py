"""The sums of ``definition.aggregate_rows`` on a GPU, with enough loads in flight to keep its memory busy.

A warp adds up a short segment; each thread loads up to 16 columns together. For ``LANES`` columns of a long segment
there is a block: all its warps load ``TILE`` rows at once, then one warp adds them one after the other. So a row number
that is in every sentence costs one round of loads for each TILE of its rows, not one for each row. Both ways add rows
in their order, so the bits are those of the body.
"""

from kernels.cuda.kernel import Kernel

LANES, WARPS = 32, 8  # threads of a warp, warps of a block
READS = 16  # rows of a long segment, and columns of a short one, that a thread loads at once
LONG = 32  # rows; a segment with more is long
WORKERS = 528  # blocks for long segments: four for each processor of a large GPU

SEGMENTS = """
def {name}(rows_, columns_, {names}):
    tile_ = cuda.shared.array(({tile}, {lanes}), rows_dtype)
    warp_, lane_ = cuda.threadIdx.x // {lanes}, cuda.threadIdx.x % {lanes}
    if cuda.blockIdx.x < {workers}:
        chunks_ = (width + {lanes} - 1) // {lanes}
        work_, end_ = cuda.blockIdx.x, counts[1] * chunks_
        while work_ < end_:
            which_ = work_ // chunks_
            segment_, column_ = long[which_], (work_ - which_ * chunks_) * {lanes} + lane_
            inside_ = column_ if column_ < width else width - 1
            place_, stop_ = starts[segment_] + 1, starts[segment_ + 1]
            value_ = rows[order[place_ - 1] * width + inside_]
            while place_ < stop_:
                next_, last_ = place_ + warp_, stop_ - 1
{fetch}
{keep}
                cuda.syncthreads()
                if warp_ == 0:
                    for ahead_ in range({tile} if place_ + {tile} < stop_ else stop_ - place_):
                        value_ += tile_[ahead_, lane_]
                cuda.syncthreads()
                place_ += {tile}
            if warp_ == 0 and column_ < width:
                total[segment_ * width + column_] = value_
            work_ += {workers}
    else:
        segment_ = (cuda.blockIdx.x - {workers}) * {warps} + warp_
        if segment_ < counts[0]:
            first_, stop_ = starts[segment_], starts[segment_ + 1]
            if stop_ - first_ <= {most}:
                column_ = lane_
{columns}
"""

COLUMNS = """
                while column_ + {beyond} < width:
                    at_ = order[first_] * width + column_
{read}
                    for place_ in range(first_ + 1, stop_):
                        at_ = order[place_] * width + column_
{add}
                    at_ = segment_ * width + column_
{write}
                    column_ += {step}"""


def lines(indent, text, count, **values):
    """Return a line of text for each of ``count`` numbers ``k``."""
    return "\n".join(" " * indent + text.format(k=k, **{name: k * step for name, step in values.items()})
                     for k in range(count))


class SegmentKernel(Kernel):
    """The kernel of ``add_segments``. Arguments: an upper bound of the number of segments, and the rows' width."""

    def __init__(self, body):
        super().__init__(body, SEGMENTS)

    def shape(self, rows, columns):
        return (WORKERS + -(-rows // WARPS),), (LANES * WARPS,)

    def source(self):
        columns = "".join(COLUMNS.format(
            beyond=(wide - 1) * LANES, step=wide * LANES,
            read=lines(20, "v{k}_ = rows[at_ + {at}]", wide, at=LANES),
            add=lines(24, "v{k}_ += rows[at_ + {at}]", wide, at=LANES),
            write=lines(20, "total[at_ + {at}] = v{k}_", wide, at=LANES)) for wide in (READS, 4, 1))
        place = "next_ + {at} if next_ + {at} < stop_ else last_"
        fetch = lines(16, "v{k}_ = rows[order[" + place + "] * width + inside_]", READS, at=WARPS)
        keep = lines(16, "tile_[warp_ + {at}, lane_] = v{k}_", READS, at=WARPS)
        return SEGMENTS.format(name=self.name, names=", ".join(self.names), lanes=LANES, warps=WARPS, workers=WORKERS,
                               tile=READS * WARPS, most=LONG, fetch=fetch, keep=keep, columns=columns)


@SegmentKernel
def add_segments(segment, column, width, counts, starts, order, long, rows, total):
    """Write the sum of rows order[starts[segment]], order[starts[segment] + 1], ... to total[segment].

    counts: the number of segments, and of long ones.  long: segments with more than LONG rows, in any order.
    """
    if segment < counts[0]:
        value = rows[order[starts[segment]] * width + column]
        for place in range(starts[segment] + 1, starts[segment + 1]):
            value += rows[order[place] * width + column]
        total[segment * width + column] = value
