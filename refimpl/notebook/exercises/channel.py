"""Exercises of notebook 13: when a call costs little, the bytes of a dynamic tensor, when a slot may be written."""

from itertools import product

from refimpl.notebook.exercises import answered, compared, exercise, right, wrong

CALL, RATE = 400e-6, 25e6
"""Seconds of a call, bytes a second of the line: as in the lesson."""
ROWS, WIDTH, ITEM = 1000, 64, 4


@exercise
def check_size(nbytes):
    """Check from how many bytes on a call is at most a tenth of the whole time."""
    wanted = 9 * CALL * RATE
    hints = {10 * CALL * RATE: "the call is a tenth of the whole, and the whole includes the call",
             CALL * RATE: "here call and bytes take the same time: the call is a half",
             CALL * RATE / 9: "the other way round: the bytes must take nine times as long as the call"}
    return compared(nbytes, wanted, f"{wanted:,.0f} bytes. Below that, it pays to make the call cheaper or to send "
                    "less often.", hints, "the call takes a seconds, n bytes take n / b: a shall be a tenth of both", 1)


@exercise
def check_bytes(nbytes):
    """Check the bytes of a dynamic tensor of 1,000 rows of 64 float32, its description, signal and credit included."""
    payload = ROWS * WIDTH * ITEM
    wanted = payload + 24 + 8 * 2 + 8
    hints = {payload: "this is the payload alone", payload + 16: "these are the bytes of a static tensor",
             payload + 24 + 8 * 2: "the signal is missing, or you have counted one dimension and a matrix has two"}
    return compared(nbytes, wanted, f"{wanted:,} bytes: 48 more than the payload, 32 more than in a static slot.",
                    hints, "n + m + 8, where m = 24 + 8 for each dimension")


@exercise
def check_may_write(may_write):
    """Check a function (written, read, slots) -> whether a writer with so many slots may write the next tensor."""
    for written, read, slots in product(range(6), range(6), range(1, 4)):
        if not 0 <= written - read <= slots:
            continue
        found = answered(may_write(written, read, slots))
        if bool(found) != (written - read < slots):
            free = slots - (written - read)
            return wrong(f"{written} written, {read} read, {slots} slot{'s' * (slots > 1)}: {free} "
                         f"{'is' if free == 1 else 'are'} free, and may_write says {found}")
    return right("with two slots the writer need not wait while the reader uses one.")
