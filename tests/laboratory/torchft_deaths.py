"""Kill one of three replica groups of torchft, and tell when the others commit a step again, and with which numbers.

    python tests/laboratory/torchft_deaths.py      in an environment with torch and torchft

Beside it, undisturbed, the same training: with one group fewer torchft goes on with a smaller batch, so its numbers
differ from then on. Ours: ``python -m deaths --recovery``.
"""

import argparse
import hashlib
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

GROUPS, STEPS, DEATH, VICTIM = 3, 60, 30, 1


def group(number: int, lighthouse: str, dies: bool, ready: Path):
    """Train as a replica group of one process; print each committed step. Called in a process of its own.

    ready: a folder in which each group says that it can begin: else the first steps would be those of fewer groups.
    """
    import torch
    from torchft import DistributedDataParallel, Manager, Optimizer, ProcessGroupGloo

    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = torch.nn.Linear(64, 64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    store = torch.distributed.TCPStore("localhost", 0, is_master=True, wait_for_workers=False)
    manager = Manager(ProcessGroupGloo(timeout=timedelta(seconds=5)),
                      lambda state: (model.load_state_dict(state["model"]), optimizer.load_state_dict(state["optimizer"])),
                      lambda: {"model": model.state_dict(), "optimizer": optimizer.state_dict()}, min_replica_size=GROUPS - 1,
                      timeout=timedelta(seconds=10), rank=0, world_size=1, store_addr="localhost",
                      store_port=store.port, lighthouse_addr=lighthouse, replica_id=f"group{number}", hostname="localhost")
    replicated, managed = DistributedDataParallel(manager, model), Optimizer(manager, optimizer)
    (ready / str(number)).touch()
    while len(list(ready.iterdir())) < GROUPS:
        time.sleep(0.01)
    time.sleep(1)  # until the lighthouse has had heartbeats of all
    while (step := manager.current_step()) < STEPS:
        if dies and step == DEATH:
            print(f"killed {time.monotonic()}", flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        drawn = torch.Generator().manual_seed(1000 * step + number)
        inputs, targets = (torch.randn(32, 64, generator=drawn) for _ in range(2))
        managed.zero_grad()
        torch.nn.functional.mse_loss(replicated(inputs), targets).backward()
        managed.step()
        digest = hashlib.sha256(b"".join(p.detach().numpy().tobytes() for p in model.parameters())).hexdigest()
        print(f"step {manager.current_step()} {time.monotonic()} {manager.num_participants()} {digest[:8]}", flush=True)
    os._exit(0)


def train(dies: bool) -> tuple[float, list[tuple]]:
    """Return (when the victim was killed, (step, when, groups, hash) of each step of each group that was left)."""
    from torchft.coordination import LighthouseServer

    lighthouse = LighthouseServer("[::]:0", min_replicas=GROUPS - 1)  # the rest as it comes
    with tempfile.TemporaryDirectory() as ready:
        groups = [subprocess.Popen([sys.executable, __file__, "--group", str(number), "--lighthouse",
                                    lighthouse.address(), "--ready", ready, *["--dies"] * (dies and number == VICTIM)],
                                   stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL)
                  for number in range(GROUPS)]
        said = [process.communicate(timeout=300)[0] for process in groups]
    lighthouse.shutdown()
    killed = re.search(r"killed ([\d.]+)", said[VICTIM])
    steps = [(int(step), float(when), int(count), digest) for number, text in enumerate(said) if number != VICTIM
             for step, when, count, digest in re.findall(r"step (\d+) ([\d.]+) (\d+) (\w+)", text)]
    return float(killed[1]) if killed else 0.0, steps


def main() -> int:
    """Train undisturbed, and with deaths; print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--group", type=int)
    parser.add_argument("--lighthouse")
    parser.add_argument("--ready", type=Path)
    parser.add_argument("--dies", action="store_true")
    asked = parser.parse_args()
    if asked.group is not None:
        return group(asked.group, asked.lighthouse, asked.dies, asked.ready)
    for _ in range(2):
        print("undisturbed:", sorted({digest for step, _, _, digest in train(False)[1] if step == STEPS}), flush=True)
    for _ in range(asked.trials):
        killed, steps = train(True)
        after = sorted(when - killed for step, when, _, _ in steps if when > killed and step > DEATH)
        print(f"next commit {after[0]:.2f} s after the kill; groups in the last step "
              f"{[count for step, _, count, _ in steps if step == STEPS]}, parameters "
              f"{sorted({digest for step, _, _, digest in steps if step == STEPS})}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
