"""The subject, misbehaving once, as the environment says: at one call, on one rank or on all.

REFIMPL_FAULTS_LIE holds a trial's JSON (see ``lies.draw``); read when model and data are made. All Local.
"""

import json
import os
import time

from models import Batch, Uniform, Variable
from refimpl.experiments.faults.trained import subject, untruths

LIE = "REFIMPL_FAULTS_LIE"
PER_STEP = 2  # microbatches of a rank, and so calls: 6 on 3 ranks
FOR_EVER = 3600.0


class Teller:
    """Knows when to lie, on the rank: at one call of ``where``, about PER_STEP a step; ``examples``: for one step."""

    def __init__(self):
        self.what = json.loads(os.environ[LIE])
        self.lie, self.calls, self.told = self.what["lie"], 0, False
        self.mine = self.what["rank"] in (None, subject.rank())

    def now(self, where: str) -> bool:
        """Return whether this call of ``where`` is the one; count it."""
        if not self.mine or where != self.what["where"]:
            return False
        self.calls += 1
        if self.calls != self.at(where):
            return False
        self.tell()
        return True

    def of_step(self, where: str, step: int) -> bool:
        """Return whether ``where`` is the call and ``step`` the step: who lies about a step, always says the same."""
        return self.mine and where == self.what["where"] and step == self.what["step"]

    def tell(self) -> bool:
        """Mark that a lie is told; return whether it is the first time."""
        first, self.told = not self.told, True
        if first:
            subject.mark("lie", everywhere=True)
        return first

    def at(self, where: str) -> int:
        """Return the number of the call, 1 for the first. The first start of an epoch has nothing to forget."""
        step = self.what["step"]
        return {"variables": 1, "starts_epoch": 2, "evaluate": 1 + step}.get(where, 1 + PER_STEP * step)


def misbehave(lie: str):
    """Do what can be done anywhere."""
    match lie:
        case "raises":
            raise ValueError("a planted error")
        case "raises without words":
            raise RuntimeError
        case "sys.exit(0)":
            raise SystemExit(0)
        case "sys.exit(words)":
            raise SystemExit("a planted exit")
        case "os._exit(0)" | "os._exit(3)":
            os._exit(int(lie[-2]))
        case "KeyboardInterrupt":
            raise KeyboardInterrupt
        case "loops for ever":
            while True:
                pass
        case "sleeps":
            time.sleep(FOR_EVER)
        case "Barrier of its own":
            from refimpl.transport.job import all_ranks

            all_ranks().Barrier()
        case "fork comes back":
            os.fork()


class Liar(subject.Subject):
    """The model."""

    def __init__(self):
        super().__init__()
        self.teller, self.kept = Teller(), []
        if self.teller.now("variables"):
            misbehave(self.teller.lie)
            self.variables = list(_VARIABLES.get(self.teller.lie, lambda v: v)(self.variables))

    def rows_needed(self, batch):
        """Return the rows, or a lie about them."""
        needed = super().rows_needed(batch)
        if self.teller.now("rows_needed"):
            misbehave(self.teller.lie)
            return untruths.of_rows(self.teller.lie, needed, batch)
        return needed

    def loss_and_gradients(self, dense, rows, batch):
        """Return loss and gradients, or a lie about them."""
        now = self.teller.now("loss_and_gradients")
        if now:
            misbehave(self.teller.lie)
            untruths.write_before(self.teller.lie, dense, rows, batch)
        for array in self.kept:
            array += 1
        self.kept = []
        loss, gradients = super().loss_and_gradients(dense, rows, batch)
        if now:
            self.kept = untruths.keep(self.teller.lie, dense, rows, gradients)
            return untruths.of_gradients(self.teller.lie, loss, gradients, batch)
        return loss, gradients

    def evaluate(self, dense, tables, batch):
        """Return the sums, or a lie about them."""
        sums = super().evaluate(dense, tables, batch)
        if self.teller.now("evaluate"):
            misbehave(self.teller.lie)
            return untruths.of_evaluation(self.teller.lie, sums, tables)
        return sums


class LyingExamples(subject.Watched):
    """The data."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.teller, self.training = Teller(), False

    def examples(self, step):
        """Return the number of examples; of the lie's step a lie, once a step has begun: set-up hears no lie."""
        if self.training and self.teller.of_step("examples", step):
            if self.teller.tell() or self.teller.lie != "fork comes back":  # one child is enough
                misbehave(self.teller.lie)
            return {"other examples": super().examples(step) + 1, "examples a string": "24"}.get(
                self.teller.lie, super().examples(step))
        return super().examples(step)

    def starts_epoch(self, step):
        """Return whether an epoch starts, or a lie about it. Each step begins with this question."""
        self.training = True
        if self.teller.now("starts_epoch"):
            misbehave(self.teller.lie)
            return super().starts_epoch(step) != (self.teller.lie == "other epoch")
        return super().starts_epoch(step)

    def microbatch(self, step, index):
        """Return the microbatch, or a lie about it."""
        self.training = True
        batch = super().microbatch(step, index)
        if self.teller.now("microbatch"):
            misbehave(self.teller.lie)
            return {"other normaliser": Batch(batch.inputs, batch.targets, None, 2 * batch.normaliser),
                    "microbatch left out": None, "microbatch is a string": "batch"}.get(self.teller.lie, batch)
        return batch


def draw(microbatches, size):
    """Return the data."""
    return subject.draw(microbatches, size, LyingExamples)


_VARIABLES = {
    "other initial values": lambda v: (Variable(v[0].name, v[0].shape, sparse=True, initial=Uniform(0.25)), *v[1:]),
    "other shape": lambda v: (*v[:2], Variable("bias", (5,), decays=False)),
    "other order": lambda v: (v[1], v[0], v[2]),
    "strange initial": lambda v: (*v[:2], Variable("bias", (4,), decays=False, initial="zero")),
}
