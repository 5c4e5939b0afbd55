"""Exercises of lesson 13: when a call costs little, the bytes of a dynamic tensor, when a slot may be written."""

from itertools import product

from refimpl.notebook.exercises import answered, exercise, number, right, wrong
from refimpl.words import counted

CALL, RATE = 400e-6, 25e6
"""Seconds of a call, bytes a second of the line: as in the lesson."""
PAYLOAD = 1000 * 64 * 4
"""Bytes of 1,000 rows of 64 float32."""

check_size = number(
    9 * CALL * RATE, "90,000 bytes. Below that, it pays to make the call cheaper or to send less often.", {
        10 * CALL * RATE: "the call is a tenth of the whole, and the whole includes the call",
        CALL * RATE: "here call and bytes take the same time: the call is a half",
        CALL * RATE / 9: "the other way round: the bytes must take nine times as long as the call",
    }, "the call takes a seconds, n bytes take n / b: a shall be a tenth of both", apart=1)
"""From how many bytes on a call is at most a tenth of the whole time."""

check_bytes = number(
    PAYLOAD + 24 + 8 * 2 + 8, "256,048 bytes: 48 more than the payload, 32 more than in a static slot.", {
        PAYLOAD: "this is the payload alone", PAYLOAD + 16: "these are the bytes of a static tensor",
        PAYLOAD + 24 + 8 * 2: "the signal is missing, or you have counted one dimension and a matrix has two",
    }, "n + m + 8, where m = 24 + 8 for each dimension")
"""The bytes of a dynamic tensor, its description, signal and credit included."""


@exercise
def check_may_write(may_write):
    """Check a function (written, read, slots) -> whether a writer with so many slots may write the next tensor."""
    for written, read, slots in product(range(6), range(6), range(1, 4)):
        if not 0 <= written - read <= slots:
            continue
        found = answered(may_write(written, read, slots))
        if bool(found) != (written - read < slots):
            free = slots - (written - read)
            return wrong(f"{written} written, {read} read, {counted(slots, 'slot')}: {free} "
                         f"{'is' if free == 1 else 'are'} free, and may_write says {found}")
    return right("with two slots the writer need not wait while the reader uses one.")
