"""Bytes of a training on the machines' cards, beside the payload between machines and its formula.

Every rank reads its machine's card before and after each step. The first rank of each machine writes the account to a
file, which the hub reads when the job has ended.

    framing = card / payload - 1: headers of Ethernet, IP and TCP, acknowledgements, MPI's own headers, and the few
              small messages that are not payload (agreement of the ranks, reports of bytes)
"""

import json
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from refimpl.experiments.cluster.card import ACCOUNT, card_bytes
from refimpl.plan.cost import predict_crossing
from refimpl.plan.activations import examples_in
from refimpl.plan.plan import SYNCHRONOUS
from refimpl.plan.sample import take_sample
from refimpl.transport import Communicator
from refimpl.words import counted

FORMULA_STEPS = 4
"""The number of first steps that are compared with the formula, which needs every rank's row numbers."""

SMALL_STEP = 500_000
"""If a machine's step has less payload than these bytes, in and out, its framing says nothing about larger steps."""


class Account:
    """Bytes (sent, received) of this machine over the steps of a training: ``train(..., watch=account.step)``.

    A training without barriers, or its replay, does many steps inside one watch. Then no formula is checked.
    After a rank has died the others begin a new account.
    """

    def __init__(self, comm: Communicator):
        self.comm, self.steps, self.trainer = comm, 0, None
        self.card, self.payload = np.zeros(2, np.int64), np.zeros(2, np.int64)  # of the machine; of this rank
        self.looked_at: list[tuple] = []  # (step, plan, payload of this rank) of the first steps

    @contextmanager
    def step(self, trainer):
        """Count the step, or the steps, that are done inside. Collective."""
        if trainer.comm is not self.comm:  # MPI has revoked the old one
            Account.__init__(self, trainer.comm)
        before, begin = card_bytes(), trainer.step
        self.comm.agree()  # no rank begins before all have read their cards
        yield
        self.comm.agree()  # all messages have arrived
        self.card += np.subtract(card_bytes(), before)
        self.comm.agree()  # no rank continues before all have read their cards
        ledger = self.comm.ledger
        payload = np.array([ledger.total("crossed_sent"), ledger.total("crossed_received")])
        done = trainer.step - begin
        self.payload, self.steps, self.trainer = self.payload + payload, self.steps + done, trainer
        if trainer.options.consistency == SYNCHRONOUS and done == 1 and len(self.looked_at) < FORMULA_STEPS:
            self.looked_at.append((trainer.step - 1, trainer.plan, payload))

    def close(self):
        """Write the account of this machine to its file, as JSON; nothing if there were no steps. Collective."""
        if not self.steps:
            return
        looked_at = sum((payload for _, _, payload in self.looked_at), np.zeros(2, np.int64))
        everyone = self.comm.share(np.stack([self.payload, looked_at]), "account")
        formula = json.loads(self.comm.once(lambda: json.dumps(self._formula())))
        if self.comm.rank == self.comm.machine[0]:
            payload, checked = everyone[list(self.comm.machine)].sum(axis=0).tolist()
            number = self.comm.machines.index(self.comm.machine)
            account = {"steps": self.steps, "card": self.card.tolist(), "payload": payload,
                       "formula_steps": len(self.looked_at), "formula_payload": checked, "formula": formula[number]}
            Path(ACCOUNT).write_text(json.dumps(account))

    def _formula(self) -> list:
        """Return the bytes (sent, received) of each machine in the first steps, by the plan's formula."""
        machines = self.comm.machines
        predicted = np.zeros((len(machines), 2), np.int64)
        for step, plan, _ in self.looked_at:
            model, data = self.trainer.model, self.trainer.data
            sample = take_sample(model, data, self.trainer.options.seed, (step,))
            pulled, pushed = sample.both(0, plan.ranks)
            examples = [examples_in(data.microbatch(step, v)) for v in range(plan.microbatches)] if plan.mesh else ()
            for number in range(len(machines)):
                bytes_of = predict_crossing(plan, model.variables, pulled, pushed, number, examples)
                predicted[number] += np.sum(list(bytes_of.values()) or [(0, 0)], axis=0)
        return predicted.tolist()


def describe(accounts) -> list[str]:
    """Return lines of text: for each machine the card's bytes, payload, formula and framing of a step. Local.

    accounts: of each machine, from the files of ``Account.close``.
    """
    steps = accounts[0]["steps"]
    lines = [f"bytes of a training step on each machine's card, mean of {steps} (sent / received):"]
    for number, a in enumerate(accounts):
        card, payload = ([n / a["steps"] for n in a[which]] for which in ("card", "payload"))
        lines.append(f"  machine {number:3}  card {_pair(card)}  payload {_pair(payload)}  framing {framing(a):6.2%}")
    if max(sum(a["payload"]) for a in accounts) < SMALL_STEP * steps:
        lines.append("  framing is high where messages are small: some kilobytes of headers, acknowledgements and "
                     "agreement in each step")
    looked_at = accounts[0]["formula_steps"]
    if not looked_at:
        return lines
    wrong = [f"machine {n}: payload {_pair(a['formula_payload'])}, formula {_pair(a['formula'])}"
             for n, a in enumerate(accounts) if a["formula_payload"] != a["formula"]]
    return [*lines, f"payload and formula, first {counted(looked_at, 'step')}: "
            f"{'; '.join(wrong) or 'equal on every machine'}"]


def framing(account: dict) -> float:
    """Return the bytes on the card beyond the payload, as a fraction of the payload, in both directions. Local."""
    payload = sum(account["payload"])
    return sum(account["card"]) / payload - 1 if payload else 0.0


def _pair(numbers) -> str:
    return " / ".join(f"{n:12,.0f}" for n in numbers)
