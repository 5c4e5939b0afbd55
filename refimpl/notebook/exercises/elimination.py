"""Exercises of the lesson about support vector machines: which samples may go, and the bytes of a round."""

import numpy as np

from refimpl.notebook.exercises import answered, exercise, number, right, wrong

OTHERS, ENDS = 15, 2 * 32
"""Of 16 ranks; of 32 samples at each end of the gap."""
BYTES = 8 * 2 * ENDS * OTHERS


@exercise
def check_may_go(may_go):
    """Check a function (grows, shrinks, error, up, low) -> whether a sample can be neither end of the gap."""
    draw = np.random.default_rng(14)
    for grows, shrinks in ((True, True), (True, False), (False, True)):
        for error in [-1.5, 1.5, *draw.uniform(-1, 1, 4)]:
            wanted = (grows and not shrinks and error > 1) or (shrinks and not grows and error < -1)
            if bool(answered(may_go(grows, shrinks, error, -1.0, 1.0))) != wanted:
                sample = f"grows={grows}, shrinks={shrinks}, error={error:.2f}, up=-1, low=1"
                if grows and shrinks:
                    return wrong(f"{sample}: its weight is free, so it can be either end when errors change")
                return wrong(f"{sample}: it {'may go' if wanted else 'must stay'}. Which end of the gap could it be?")
    return right("a sample whose weight is 0 or C can be one end only, and its error lies beyond that of the other.")


check_bytes = number(BYTES, f"{BYTES:,} bytes, whatever the number of samples is.", {
    BYTES // 2: "there are two ends of the gap", BYTES // 8: "these are numbers; each has 8 bytes",
    BYTES * (1 + OTHERS): "that is what all ranks send together", BYTES // OTHERS: "to how many ranks?",
    BYTES // OTHERS * (1 + OTHERS): "a rank sends nothing to itself",
}, "for each sample two numbers of 8 bytes, at each end 32 samples, to each other rank")
"""The bytes that a rank sends in a round of blocks: error and number of the samples at both ends."""
