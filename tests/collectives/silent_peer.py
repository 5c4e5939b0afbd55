"""A job whose last rank kills itself (or goes to sleep) in the middle of sums through shared memory.

    python silent_peer.py kill|sleep
"""

import os
import signal
import sys
import time

import numpy as np

from refimpl.collectives import Wire, make_schedule
from refimpl.collectives.shared import SharedRunner

wire = Wire()
schedule = make_schedule("direct", wire.size, wire.size)
patience = 1.0 if sys.argv[1] == "sleep" else 300.0
runner = SharedRunner(schedule, wire, 1000, np.empty(0, np.float32), "sum", lambda a, b: {"v": b - a}, patience)
for step in range(100):
    if step == 50 and wire.rank == wire.size - 1:
        if sys.argv[1] == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)
    runner()
    runner.release()
