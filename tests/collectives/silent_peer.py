"""A job whose last rank kills itself (or goes to sleep) in the middle of sums through shared memory.

    python silent_peer.py kill|sleep|kill-private

kill-private: at any moment of a sum of private arrays, which others may be reading and writing.
"""

import os
import signal
import sys
import threading
import time

import numpy as np

from refimpl.collectives import Wire, make_schedule, peer_memory
from refimpl.collectives.shared import SharedRunner

wire = Wire()
schedule = make_schedule("direct", wire.size, wire.size)
patience = 1.0 if sys.argv[1] == "sleep" else 300.0
private = sys.argv[1] == "kill-private"
elements = 1_000_000 if private else 1000
peer_memory.LONG = 0  # where they lie
runner = SharedRunner(schedule, wire, elements, np.empty(0, np.float32), "sum", lambda a, b: {"v": b - a}, patience)
if private:
    array = np.ones(elements, np.float32)
    runner([array])
    if wire.rank == wire.size - 1:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGKILL)).start()
    while True:
        runner([array])
for step in range(100):
    if step == 50 and wire.rank == wire.size - 1:
        if sys.argv[1] == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)
    runner()
    runner.release()
