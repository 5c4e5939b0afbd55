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

from refimpl.collectives import make_schedule
from refimpl.collectives.running.shared import SharedRunner
from refimpl.transport import Communicator, peer_memory

communicator = Communicator.of()
schedule = make_schedule("direct", communicator.size, communicator.size)
private = sys.argv[1] == "kill-private"
elements = 1_000_000 if private else 1000
peer_memory.LONG = 0  # where they lie
runner = SharedRunner.open(schedule, communicator, elements, np.empty(0, np.float32), "sum", lambda a, b: {"v": b - a})
communicator.timeout = 1.0 if sys.argv[1] == "sleep" else 300.0
if private:
    array = np.ones(elements, np.float32)
    runner([array])
    if communicator.rank == communicator.size - 1:
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGKILL)).start()
    while True:
        runner([array])
for step in range(100):
    if step == 50 and communicator.rank == communicator.size - 1:
        if sys.argv[1] == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(60)
    runner()
    runner.release()
