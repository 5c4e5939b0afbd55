"""The messages between owners and workers (letters), and their bytes.

    PULL      |word|rows of each sparse variable|row numbers ...|                                to an owner
    ANSWER    |word|over|rows ...|dense variables that the owner keeps ...|                      to a worker
    PUSH      |word|rows of each sparse variable|row numbers ...|rows ...|dense gradients ...|   to an owner

8 bytes are counted for each number before the arrays (control) and for each row number (indices); rows and dense values
have their own size. Messages of a rank to itself are not counted.
"""

import numpy as np

from kernels import RowGradient
from refimpl.transport.ledger import Ledger
from refimpl.transport.letters import Letter

PULL, ANSWER, PUSH = 0, 1, 2
PHASES = {PULL: "pull", ANSWER: "pull", PUSH: "push"}


class Mail:
    """Sends, reads and counts the messages of a rank. Local.

    letters: send(rank, *arrays).  machine: the ranks on this rank's machine.  sparse: the sparse variables.
    """

    def __init__(self, letters, ledger: Ledger, rank: int, machine, sparse):
        self.letters, self.ledger, self.rank, self.machine, self.sparse = letters, ledger, rank, machine, sparse

    def ask(self, owner: int, numbers: dict):
        """Send a pull to an owner. numbers: name -> (k,) rows of the owner's shard, of every sparse variable."""
        self._send(owner, PULL, map(len, numbers.values()), _parts("indices", numbers))

    def answer(self, worker: int, over: bool, values: dict):
        """Send a worker its answer. values: name -> rows, or the whole dense value."""
        self._send(worker, ANSWER, [over], self._values(values))

    def push(self, owner: int, gradients: dict):
        """Send gradients to an owner: name -> RowGradient of rows of its shard, of every sparse variable; or array."""
        numbers = {v.name: gradients[v.name].ids for v in self.sparse}
        values = {name: g.rows if isinstance(g, RowGradient) else g for name, g in gradients.items()}
        self._send(owner, PUSH, map(len, numbers.values()), _parts("indices", numbers) + self._values(values))

    def read_pull(self, letter: Letter) -> dict:
        """Return name -> the rows that are pulled."""
        numbers = self._numbers(letter)
        self._count("received", letter.sender, PULL, len(numbers), _parts("indices", numbers))
        return numbers

    def read_answer(self, letter: Letter, asked: dict | None, dense) -> tuple[bool, dict]:
        """Return (whether the training is over, name -> values). asked: as of ``ask``; None: no rows were pulled.

        dense: the variables that the owner keeps.
        """
        over, values = bool(letter.next(np.int64)), {}
        if asked is not None:
            values = {v.name: letter.next(v.dtype, (len(asked[v.name]), v.shape[1])) for v in self.sparse}
            values |= {v.name: letter.next(v.dtype, v.shape) for v in dense}
        self._count("received", letter.sender, ANSWER, 1, self._values(values))
        return over, values

    def read_push(self, letter: Letter, dense) -> dict:
        """Return name -> gradient. dense: the variables that this rank keeps."""
        numbers = self._numbers(letter)
        values = {v.name: letter.next(v.dtype, (len(numbers[v.name]), v.shape[1])) for v in self.sparse}
        values |= {v.name: letter.next(v.dtype, v.shape) for v in dense}
        self._count("received", letter.sender, PUSH, len(numbers), _parts("indices", numbers) + self._values(values))
        return {name: RowGradient(numbers[name], value) if name in numbers else value for name, value in values.items()}

    def _numbers(self, letter):
        lengths = letter.next(np.int64, (len(self.sparse),)).tolist()
        return {v.name: letter.next(np.int64, (length,)) for v, length in zip(self.sparse, lengths)}

    def _values(self, values):
        sparse = {v.name for v in self.sparse}
        return [(name, "rows" if name in sparse else "dense", array) for name, array in values.items()]

    def _send(self, rank, word, head, parts):
        head = np.array([word, *head], np.int64)
        self.letters.send(rank, head, *(array for *_, array in parts))
        self._count("sent", rank, word, len(head) - 1, parts)

    def _count(self, direction, rank, word, head, parts):
        """Count a message. head: the count of numbers after its word.  parts: (variable, kind, array) of each array."""
        if rank == self.rank:
            return
        crosses, phase = rank not in self.machine, PHASES[word]
        self.ledger.count(direction, crosses, phase, {"": 1 + head}, "control", 8)
        for name, kind, array in parts:
            self.ledger.count(direction, crosses, phase, {name: array.size}, kind, array.itemsize)


def _parts(kind, arrays) -> list[tuple]:
    return [(name, kind, array) for name, array in arrays.items()]
