"""Answers of readers to the exercises of lessons 0 to 7: right ones, unfinished ones, and wrong ones with their hints."""

import numpy as np

from kernels import aggregate_rows, unique_ids
from models import Variable
from models.vision.cross_entropy import cross_entropy
from refimpl.collectives import make_schedule
from refimpl.notebook.exercises import (
    adding_up, hybrid, numbers, own_model, parameter_server, partitions, sparsity, training_step,
)
from refimpl.notebook.exercises.adding_up import to_the_right

RING = list(make_schedule("ring", 4, 4).rounds)
PLAN = {"filters": "allreduce", "words": "server", "tags": "server", "positions": "as-dense"}


def unfinished(*given):
    """A function that the reader has not written yet."""
    return ...


def gradient(factor=2.0, mean=np.mean, names=slice(None)):
    def found(parameters, x, y):
        s, c, q = parameters
        error = s * x + c + q * x**2 - y
        return [mean(factor * error * of) for of in (x, 1, x**2)][names]

    return found


def ring(ranks, first=1, steps=None):
    for step in range(ranks - 1):
        yield to_the_right([(rank - step) % ranks for rank in range(ranks)], add=True)
    for step in range(ranks - 1 if steps is None else steps):
        yield to_the_right([(rank + first - step) % ranks for rank in range(ranks)])


def rank_2(answers):
    return parameter_server.check_rank_2(*answers)


def curve(answers):
    return partitions.check_curve(*answers)


def deal(loads, ranks, key=None):
    """Heaviest first, or by another key."""
    owners, total = [0] * len(loads), [0] * ranks
    for partition in sorted(range(len(loads)), key=key or (lambda p: -loads[p])):
        owners[partition] = total.index(min(total))
        total[owners[partition]] += loads[partition]
    return owners


def tree(values):
    """Neighbours first; a number without a neighbour goes up as it is."""
    while len(values) > 1:
        values = [sum(values[i + 1:i + 2], values[i]) for i in range(0, len(values), 2)]
    return values[0]


def halves(values):
    """Halves instead of pairs: the tree for powers of two alone."""
    middle = len(values) // 2
    return values[0] if len(values) == 1 else halves(values[:middle]) + halves(values[middle:])


class Votes:
    """The exercise's class; ``gradients_of`` is the reader's part."""

    def __init__(self, vocabulary, dtype="float32"):
        votes, bias = (vocabulary, 3), (3,)
        self.variables = [Variable("votes", votes, sparse=True, dtype=dtype), Variable("bias", bias, dtype=dtype)]

    def rows_needed(self, batch):
        return {"votes": unique_ids(batch.inputs.ravel())}

    def loss_and_gradients(self, dense, rows, batch):
        place = np.searchsorted(self.rows_needed(batch)["votes"], batch.inputs)
        scores = rows["votes"][place].mean(axis=1) + dense["bias"]
        losses, slope = cross_entropy(scores, batch.targets)
        return losses.sum() / batch.normaliser, self.gradients_of(batch, slope / batch.normaliser)


def votes(gradients_of):
    return type("Answer", (Votes,), {"gradients_of": lambda self, batch, slope: gradients_of(batch, slope)})


def each(slope, ids, share=1 / 5):
    return aggregate_rows(ids.ravel(), np.repeat(slope * share, ids.shape[1], axis=0))


def places(ids):
    return np.unique(ids, return_inverse=True)[1].reshape(ids.shape)


RIGHT = [
    (training_step.check_step, 3.0 - 0.1 * 0.5), (training_step.check_gradient, gradient()),
    (training_step.check_combine, lambda means, sizes: np.dot(sizes, means) / sum(sizes)),
    (adding_up.check_bytes, 112), (adding_up.check_bytes, 112.0), (adding_up.check_my_ring, ring),
    (adding_up.check_counted_twice, [RING[0], *RING]),
    (rank_2, (68, 52)), (parameter_server.check_factor, 24), (parameter_server.check_deal, deal),
    (sparsity.check_expected, 1.75), (sparsity.check_server_bytes, lambda a, w, n: 4 * a * w * (n - 1) / n),
    (sparsity.check_allgather_bytes, lambda t, w, n: 2 * t * w * (n - 1) / n),
    (hybrid.check_kernel, (1_572_864, 3_145_728)), (hybrid.check_plan, PLAN),
    (hybrid.check_crossing, lambda d: (4 * d + 4) / (4 * d + 8)),
    (curve, ((1, 8, 1), 3)), (partitions.check_busiest, lambda p, n: -(-p // n) / p), (partitions.check_union, (7, 5)),
    (numbers.check_counts, [2, 1, 1, 0]), (numbers.check_tree, tree), (numbers.check_bug, "ids-float32"),
    (own_model.check_dense_bytes, 306.0), (own_model.check_times, 8),
    (own_model.check_votes, votes(lambda b, s: {"votes": each(s, b.inputs), "bias": s.sum(axis=0)})),
]
UNFINISHED = [
    *((check, unfinished) for check in (
        training_step.check_combine, parameter_server.check_deal, sparsity.check_server_bytes,
        sparsity.check_allgather_bytes, hybrid.check_crossing, partitions.check_busiest, numbers.check_tree)),
    (training_step.check_gradient, lambda *given: [...] * 3),
    (adding_up.check_my_ring, lambda ranks: [to_the_right([...] * ranks)]),
    (rank_2, (..., ...)), (rank_2, (68, ...)), (curve, (..., ...)), (hybrid.check_plan, dict.fromkeys(PLAN, ...)),
    (own_model.check_votes, votes(unfinished)),
    (own_model.check_votes, votes(lambda b, s: {"votes": ..., "bias": ...})),
]
WRONG = [
    (training_step.check_step, 3.05, "points uphill"), (training_step.check_step, 2.5, "the rate"),
    (training_step.check_step, 2.9, "the derivative, too"), (training_step.check_step, 0, "rate * derivative"),
    (training_step.check_gradient, gradient(1), "what does the square become"),
    (training_step.check_gradient, gradient(mean=np.sum), "a mean, not a sum"),
    (training_step.check_gradient, gradient(-2), "error = prediction - y"),
    (training_step.check_gradient, gradient(3), "for s finite differences give"),
    (training_step.check_gradient, gradient(names=slice(2)), "each of the three"),
    (training_step.check_gradient, gradient(mean=lambda each: each), "the mean over the examples"),
    (training_step.check_combine, lambda means, sizes: np.mean(means, axis=0), "every machine counts the same"),
    (training_step.check_combine, lambda means, sizes: np.dot(sizes, means), "the sum over all examples"),
    (training_step.check_combine, lambda means, sizes: means[0], "from its mean and its size"),
    (adding_up.check_bytes, 56, "the first half alone"), (adding_up.check_bytes, 128, "close"),
    (adding_up.check_bytes, 64, "how many rounds"), (adding_up.check_bytes, 896, "how many rounds"),
    (adding_up.check_counted_twice, RING, "nothing against"),
    (adding_up.check_counted_twice, RING[:-1], "lost microbatch 1"),
    (adding_up.check_my_ring, lambda ranks: ring(ranks, first=0), "my ring over 2 ranks: rank 0 ends with a wrong"),
    (adding_up.check_my_ring, lambda ranks: ring(ranks, steps=ranks), "is the number of rounds right"),
    (rank_2, (52, 68), "wrong way round"), (rank_2, (28, 32), "that is the pull"),
    (rank_2, (52, 44), "row numbers travel twice"), (rank_2, (0, 0), "count by message"),
    (parameter_server.check_factor, 48, "also a worker"), (parameter_server.check_factor, 2, "the numbers in front"),
    (parameter_server.check_factor, 7, "and cancel"),
    (parameter_server.check_deal, lambda loads, ranks: [p % ranks for p in range(len(loads))], "heaviest partition"),
    (parameter_server.check_deal, lambda loads, ranks: deal(loads, ranks, key=int), "deal([1, 1, 1, 1, 1, 1, 3], 3)"),
    (parameter_server.check_deal, lambda loads, ranks: [0], "1 owners for 8 partitions"),
    (parameter_server.check_deal, lambda loads, ranks: [ranks] * len(loads), "ranks are 0 to 1"),
    (parameter_server.check_deal, lambda loads: [], "cannot be checked"),
    (sparsity.check_expected, 0.25, "how many words are missed"), (sparsity.check_expected, 2, "often, not always"),
    (sparsity.check_expected, 1, "all miss the first word"),
    (sparsity.check_server_bytes, lambda a, w, n: 2 * a * w * (n - 1) / n, "one direction"),
    (sparsity.check_server_bytes, lambda a, w, n: 2 * a * w * (n - 1), "the owner of all of it"),
    (sparsity.check_server_bytes, lambda a, w, n: 4 * a * w, "never leaves it"),
    (sparsity.check_server_bytes, lambda a, w, n: 4 * w * (n - 1) / n, "only touched rows"),
    (sparsity.check_server_bytes, lambda a, w, n: 2 * a * w, "serves too"),
    (sparsity.check_server_bytes, lambda a, w, n: w, "a step's ledger shows"),
    (sparsity.check_allgather_bytes, lambda t, w, n: 2 * t * w * (n - 1), "touch them together"),
    (sparsity.check_allgather_bytes, lambda t, w, n: t * w * (n - 1) / n, "one direction"),
    (sparsity.check_allgather_bytes, lambda t, w, n: 2 * t * w, "no message to itself"),
    (sparsity.check_allgather_bytes, lambda t, w, n: 2 * t * w / n, "each of N - 1 others"),
    (sparsity.check_allgather_bytes, lambda t, w, n: 4 * t * w * (n - 1) / n**2, "that is the server"),
    (sparsity.check_allgather_bytes, lambda t, w, n: w, "allgather_bytes(1/2, 12288, 4) returned 12288"),
    (hybrid.check_kernel, (1_572_864, 1_572_864), "both directions"),
    (hybrid.check_kernel, (524_288, 3_145_728), "4 w (N - 1) / N"),
    (hybrid.check_plan, PLAN | {"filters": "server"}, "filters by server: another way"),
    (hybrid.check_plan, PLAN | {"tags": "allgather"}, "tags by allgather: another way puts 4.00 times less"),
    (hybrid.check_plan, PLAN | {"positions": "server"}, "positions by server"),
    (hybrid.check_plan, PLAN | {"words": "allreduce"}, "words is sparse: it can go server"),
    (hybrid.check_plan, PLAN | {"words": ...}, "words: which way?"),
    (hybrid.check_crossing, lambda d: 1.0, "for 64 columns you say 1"),
    (hybrid.check_crossing, lambda d: 0 / 0, "ZeroDivisionError"),
    (curve, ((2, 8, 1), 3), "at P = 1 your curve says 11 s"), (curve, ((1, 8, 1), 2), "compare its two neighbours"),
    (curve, ((1, 8), 2), "IndexError"),
    (partitions.check_busiest, lambda p, n: 1 / p, "for P = 9 on 4 ranks you say 0.1111"),
    (partitions.check_union, (5, 5), "count both lists"), (partitions.check_union, (7, 2), "union"),
    (numbers.check_counts, [1, 1, 1, 1], "would give 85"), (numbers.check_counts, [2, 1, 1], "give 4 numbers"),
    (numbers.check_counts, [22, 0, 0, 0], "a digit of base 4"),
    (numbers.check_tree, sum, "one after the other"),
    (numbers.check_tree, lambda values: np.sum(np.array(values, "float64")), "your sum is"),
    (numbers.check_tree, halves, "what becomes of a number without a neighbour"),
    (numbers.check_bug, "ids-int32", "32 bits"), (numbers.check_bug, "rounding", "in sparse="),
    (own_model.check_dense_bytes, 204, "one copy"), (own_model.check_dense_bytes, 408, "its own part"),
    (own_model.check_dense_bytes, 612, "in and out"), (own_model.check_dense_bytes, 76, "elements"),
    (own_model.check_dense_bytes, 5, "how many elements"),
    (own_model.check_times, 4, "on 2 ranks"), (own_model.check_times, 256, "8 means"),
    (own_model.check_votes, votes(lambda b, s: {"votes": each(s, b.inputs, 1.0), "bias": s.sum(axis=0)}), "'votes'"),
    (own_model.check_votes, votes(lambda b, s: {"votes": each(s, b.inputs), "bias": s.mean(axis=0)}),
     "The bias is added"),
    (own_model.check_votes, votes(lambda b, s: {"votes": np.zeros((40, 3)), "bias": s.sum(axis=0)}), "'votes'"),
    (own_model.check_votes, votes(lambda b, s: {"votes": each(s, places(b.inputs)), "bias": s.sum(axis=0)}),
     "place counts within the rows"),
]
