"""The subject, misbehaving once, as the environment says: at one call, on one rank or on all.

REFIMPL_FAULTS_LIE holds a trial's JSON (see ``lies.draw``); read when model and data are made. All Local.
"""

import json
import os

from faults import subject
from faults.lies import KEPT, LIES

LIE = "REFIMPL_FAULTS_LIE"
PER_STEP = 2  # microbatches of a rank, and so calls: 6 on 3 ranks


class Teller:
    """Knows when to lie, on the rank: at one call of ``where``, about PER_STEP a step; ``examples``: for one step."""

    def __init__(self):
        self.what = json.loads(os.environ[LIE])
        self.tell, self.calls, self.told = LIES[self.what["lie"]].tell, 0, False
        self.mine = self.what["rank"] in (None, subject.rank())

    def answer(self, where: str, honest, *arguments):
        """Return what the call answers: honest(), or the lie at its moment."""
        if not self.mine or where != self.what["where"]:
            return honest()
        self.calls += 1
        return self.lie(honest, *arguments) if self.calls == self.at(where) else honest()

    def of_step(self, step: int, honest):
        """Return what ``examples`` answers: who lies about a step, always says the same."""
        if not self.mine or self.what["where"] != "examples" or step != self.what["step"]:
            return honest()
        if self.told and self.what["lie"] == "fork comes back":  # one child is enough
            return honest()
        return self.lie(honest, step)

    def lie(self, honest, *arguments):
        """Tell the lie; mark the first."""
        if not self.told:
            subject.mark("lie", everywhere=True)
        self.told = True
        return self.tell(honest, *arguments)

    def at(self, where: str) -> int:
        """Return the number of the call, 1 for the first. The first start of an epoch has nothing to forget."""
        step = self.what["step"]
        return {"variables": 1, "starts_epoch": 2, "evaluate": 1 + step}.get(where, 1 + PER_STEP * step)


class Liar(subject.Subject):
    """The model."""

    def __init__(self):
        super().__init__()
        self.teller, honest = Teller(), self.variables
        KEPT.clear()
        self.variables = self.teller.answer("variables", lambda: honest)

    def rows_needed(self, batch):
        """Return the rows, or a lie about them."""
        return self.teller.answer("rows_needed", lambda: super(Liar, self).rows_needed(batch), batch)

    def loss_and_gradients(self, dense, rows, batch):
        """Return loss and gradients, or a lie about them."""
        for array in KEPT:
            array += 1
        KEPT.clear()
        return self.teller.answer("loss_and_gradients", lambda: super(Liar, self).loss_and_gradients(
            dense, rows, batch), dense, rows, batch)

    def evaluate(self, dense, tables, batch):
        """Return the sums, or a lie about them."""
        return self.teller.answer("evaluate", lambda: super(Liar, self).evaluate(dense, tables, batch),
                                  dense, tables, batch)


class LyingExamples(subject.Watched):
    """The data."""

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.teller, self.training = Teller(), False

    def examples(self, step):
        """Return the number of examples; of the lie's step a lie, once a step has begun: set-up hears no lie."""
        def honest():
            return super(LyingExamples, self).examples(step)

        return self.teller.of_step(step, honest) if self.training else honest()

    def starts_epoch(self, step):
        """Return whether an epoch starts, or a lie about it. Each step begins with this question."""
        self.training = True
        return self.teller.answer("starts_epoch", lambda: super(LyingExamples, self).starts_epoch(step), step)

    def microbatch(self, step, index):
        """Return the microbatch, or a lie about it."""
        self.training = True
        return self.teller.answer("microbatch", lambda: super(LyingExamples, self).microbatch(step, index), step, index)


def draw(microbatches, size):
    """Return the data."""
    return subject.draw(microbatches, size, LyingExamples)
