"""The exchanges of a step, one after the other: everything is pulled, then computed, then pushed."""

from functools import partial

from kernels.arrays import read_only
from kernels.each import aligned_each
from refimpl.training.step.arriving import Fetched
from refimpl.transport import Aborted, SilentPeer


class SequentialStep:
    """The exchanges of a step. The constructor is local; all ranks call ``begin`` and ``sums`` together.

    parameters: the ``Parameters``.  needs: microbatch -> (name -> rows), None if it has no examples, in order.
    wanted: of ``Parameters.wanted``.  dense: name -> value of every dense variable.
    missing: exchange -> the microbatches whose gradients it has not taken yet.
    moving: whether an exchange is taking gradients or starting messages. An error at this time may leave it half done.
    """

    ready = None  # nothing leaves before all gradients of a microbatch are there
    keeps = False  # whether ``formed`` will be asked for
    moving = False

    def __init__(self, parameters, needs, wanted, timeline):
        self.parameters, self.timeline = parameters, timeline
        self.coming = ComingRows(parameters, needs, wanted)
        self.missing = {exchange: set(needs) for exchange in parameters.exchanges}

    def begin(self):
        """Pull what the rank's microbatches need. Collective."""
        exchanges = self.parameters.exchanges
        with self.timeline.phase("pull"):
            self._pull_all([exchange for exchange in exchanges if not exchange.replicated])
        values = aligned_each({name: value for exchange in exchanges for name, value in exchange.dense().items()})
        self.dense = {name: read_only(value) for name, value in values.items()}

    def _pull_all(self, exchanges):
        for number in range(self.parameters.plan.pull_rounds):
            for exchange in exchanges:
                self.coming.fetch(exchange, number)

    def rows(self, leaf: int) -> dict:
        """Return name -> rows of each sparse variable that a microbatch needs, read-only. Local."""
        return {name: self.coming.rows(leaf, name) for name in self.coming.names}

    def add(self, leaf: int, gradients):
        """Add a microbatch's gradients, None if it has no examples. Leaves come in order. Local."""
        for exchange in self.parameters.exchanges:
            self._take(exchange, [leaf], partial(exchange.add, leaf, gradients))

    def formed(self) -> list[dict]:
        """Return for each exchange node -> name -> sum: the sums that this rank sends. Local."""
        return [exchange.formed() for exchange in self.parameters.exchanges]

    def put(self, leaf: int, node, sums):
        """Add a node of ``formed`` in place of the gradients of its first microbatch. Local.

        node: None for the other microbatches of the node; then nothing is added.
        """
        if node is not None:
            for exchange in self.parameters.exchanges:
                self._take(exchange, node.leaves, partial(exchange.put, node, sums))

    def _take(self, exchange, leaves, take):
        """Let an exchange take these microbatches' gradients."""
        self.moving = True
        take()
        self.missing[exchange].difference_update(leaves)
        self.moving = False

    def complete(self, error: BaseException | None):
        """After an error of the computation, add nothing for the microbatches that are missing. Local.

        So this rank takes part in all sums, and no rank waits for it. The caller reports the error after them.
        Raises the error if this rank cannot take part. Then only an abort message reaches the others.
        """
        if error is None:
            return
        self.parameters.comm.stay_one()  # a child of a fork takes part in nothing
        if self.moving or isinstance(error, (SilentPeer, Aborted)):
            raise error
        for exchange, leaves in self.missing.items():
            for leaf in sorted(leaves):
                self._take(exchange, [leaf], partial(exchange.add, leaf, None))

    def sums(self):
        """Yield lists of this rank's parts of the sums (``ReducedGradient``). Collective. Call ``complete`` before."""
        reduced = []
        for exchange in self.parameters.exchanges:
            with self.timeline.phase(exchange.phase):
                reduced += self._push(exchange)
        yield reduced

    def _push(self, exchange):
        return exchange.push()

    def end(self):
        """Do nothing: no stream waits for another. Local."""


class LeavingStep(SequentialStep):
    """A step in which the sum of an exchange begins when all its gradients of the last microbatch are computed.

    _leave(exchange): begins the sum of an exchange; no more gradients will be added.  See SequentialStep.
    """

    def __init__(self, parameters, needs, wanted, timeline):
        super().__init__(parameters, needs, wanted, timeline)
        self.last, self.gradients, self.sums_kept = max(needs, default=None), ReadyGradients(parameters.exchange_of), []
        self.left = []  # exchanges whose sums have begun

    def ready(self, leaf: int, gradients):
        """Take gradients that are ready before others. An exchange gets its gradients when all of them are ready."""
        full = self.gradients.take(gradients)
        for exchange, its_own in full.items():
            self._take(exchange, [leaf], partial(exchange.add, leaf, its_own))
        self._go_on(leaf, full)

    def add(self, leaf, gradients):
        if gradients is None:
            super().add(leaf, None)
            self._go_on(leaf, self.parameters.exchanges)
        else:
            self.ready(leaf, gradients)
            self.gradients.end()

    def put(self, leaf, node, sums):
        super().put(leaf, node, sums)
        self._go_on(leaf, self.parameters.exchanges)

    def formed(self):
        return self.sums_kept

    def complete(self, error):
        super().complete(error)
        self._leave_all([exchange for exchange in self.parameters.exchanges if exchange not in self.left])

    def _leave_all(self, exchanges):
        """Begin the sums of these exchanges."""
        for exchange in exchanges:
            if self.keeps:
                self.sums_kept.append(exchange.formed())
            self._leave(exchange)
            self.left.append(exchange)

    def _go_on(self, leaf, exchanges):
        """Begin the sums of these exchanges if this is the last microbatch."""
        self._leave_all(exchanges if leaf == self.last else ())


class ReadyGradients:
    """The current microbatch's gradients. An exchange (of ``exchange_of``) gets its own when all are ready. Local."""

    def __init__(self, exchange_of: dict):
        self.exchange_of, self.taken = exchange_of, {}

    def take(self, gradients) -> dict:
        """Take new gradients, by name; return exchange -> its gradients, of those that now have all of theirs."""
        new = {name: gradients[name] for name in gradients if name not in self.taken and name in self.exchange_of}
        self.taken |= new
        return {exchange: {v.name: self.taken[v.name] for v in exchange.variables}
                for exchange in dict.fromkeys(self.exchange_of[name] for name in new)
                if all(v.name in self.taken for v in exchange.variables)}

    def end(self):
        """Drop the gradients of this microbatch."""
        self.taken = {}


class ComingRows:
    """The rows that a rank's microbatches need, pulled by exchange and round. Local, except ``fetch``.

    names: the sparse variables.  Arguments: see ``SequentialStep``.
    """

    def __init__(self, parameters, needs, wanted):
        self.names = [v.name for v in parameters.variables if v.sparse]
        self.exchange_of = parameters.exchange_of
        self.needs = {leaf: ids for leaf, ids in needs.items() if ids is not None}
        self.index = {leaf: index for index, leaf in enumerate(self.needs)}
        self.wanted, self.fetched = wanted, {name: Fetched(rows) for name, rows in wanted.items()}

    def fetch(self, exchange, number: int):
        """Pull the values of a round: rows, and in round 0 whole dense variables. Collective."""
        for _ in self.fetching(exchange, number):
            pass

    def fetching(self, exchange, number: int):
        """Do the same; yield when this rank waits and may do something else."""
        asked = {v.name: self.wanted[v.name].fresh[number] for v in exchange.variables if v.sparse}
        if asked or number == 0:
            for found in exchange.pulling(asked):
                yield
            for name, rows in found.items():
                self.fetched[name].put(number, rows)

    def round_of(self, leaf: int, name: str) -> int | None:
        """Return the round after which a microbatch's rows of a variable are here; None if they are always here."""
        return self.wanted[name].round_of[self.index[leaf]] if name in self.wanted else None

    def rows(self, leaf: int, name: str):
        """Return the (k, d) rows of a variable that a microbatch needs, read-only. Their round must have arrived."""
        if name in self.wanted:
            return read_only(self.fetched[name].take(self.index[leaf]))
        return read_only(self.exchange_of[name].pull({name: self.needs[leaf][name]})[name])
