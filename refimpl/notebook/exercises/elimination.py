"""Exercises of the lesson about support vector machines: which samples may go, and the time of a round."""

import numpy as np

from refimpl.notebook.exercises import answered, exercise, number, right, wrong

OTHERS, ENDS = 15, 2 * 32
"""Of 16 ranks; of 32 samples at each end of the gap."""
LATENCY, SENDING = 50, 8 * 2 * ENDS * OTHERS / 125
"""In microseconds, with cards of 125 MB/s; for each sample two numbers of 8 bytes to each other rank."""


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


check_changes = number((LATENCY + SENDING) / (2 * LATENCY), "a round of blocks pays if it makes two changes or more.", {
    (LATENCY + SENDING) / LATENCY: "a change by single pairs takes two rounds",
    SENDING / (2 * LATENCY): "a round of blocks takes the latency, too",
    1 / 2: "the bytes of a round of blocks take time, too",
    (LATENCY + SENDING / 2) / (2 * LATENCY): "count the bytes again: the gap has two ends",
    (LATENCY + SENDING / OTHERS) / (2 * LATENCY): "count the bytes again: to how many ranks does a rank send?",
    2 * LATENCY / (LATENCY + SENDING): "the other way round: how often do two rounds fit into one round of blocks?",
}, "a round of blocks: latency, and 15 ranks * 2 ends * 32 samples * 2 numbers of 8 bytes. Divide by two latencies",
    apart=0.001)
"""How many changes by single pairs take as long as a round of blocks."""
