"""Answers of readers to the exercises of the lessons: right ones, unfinished ones, and wrong ones with their hints."""

from fractions import Fraction

import numpy as np

from kernels import aggregate_rows, unique_ids
from models import Variable
from models.vision.cross_entropy import cross_entropy
from refimpl.collectives import make_schedule
from refimpl.notebook.exercises import (
    adding_up, channel, compression, elimination, hybrid, mesh, numbers, own_model, parameter_server, partitions,
    sparsity, survival, training_step, translation, trees, without_barriers,
)
from refimpl.notebook.exercises.adding_up import to_the_right

RING = list(make_schedule("ring", 4, 4).rounds)
PLAN = {"filters": "allreduce", "words": "server", "tags": "server", "positions": "as-dense"}
TABLE = (128 * 50 + 0.5) / translation.ROWS
PARTS = [part / (translation.DENSE + translation.SPARSE) for part in (translation.DENSE, translation.SPARSE)]
HALF = Fraction(1, 2)
PATHS = [[(0, 1), (1, 2)], [(1, 2), (2, 0)], [(2, 0), (0, 1)]]


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


def attend(scores, vectors, length):
    weights = np.exp(scores[:length] - scores[:length].max())
    return weights @ vectors[:length] / weights.sum()


def ordered(seconds, backup):
    return sorted(seconds)[len(seconds) - backup - 1]


def summed(grads, weights):
    return sum(grad @ weight for grad, weight in zip(grads, weights))


def feedback(gradient, residual, codec):
    v = gradient + residual
    return codec(v), v - codec(v)


def groups(ranks, batch, inputs, outputs):
    return min((g for g in range(1, ranks + 1) if ranks % g == 0), key=lambda g: batch / g + outputs * g / ranks)


FUNCTIONS = [
    (translation.check_attend, attend),
    (translation.check_gain, lambda d, s, alpha, n: (d + min(alpha * n / 2, 1) * s) / (d + alpha * s)),
    (without_barriers.check_answers, lambda clocks, worker, s: clocks[worker] - min(clocks) <= s),
    (without_barriers.check_step_seconds, ordered),
    (without_barriers.check_compensated, lambda g, w, b, lam: g + lam * g**2 * (w - b)),
    (mesh.check_input_gradient, summed), (mesh.check_crossing, lambda p, i, o, k: p / (k * i + o)),
    (mesh.check_groups, groups), (survival.check_partner, lambda rank, ranks, each: (rank + each) % ranks),
    (channel.check_may_write, lambda written, read, slots: written - read < slots),
    (elimination.check_may_go, lambda grows, shrinks, error, up, low: (
        grows and not shrinks and error > low) or (shrinks and not grows and error < up)),
    (compression.check_feedback, feedback),
]
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
    *FUNCTIONS, (translation.check_most, PARTS[0] + PARTS[1] * TABLE),
    (trees.check_rate, 200), (trees.check_rate, 300 / 1.5), (trees.check_parts, [{0}, {1}, {2, 3}, {4}, {5}]),
    (trees.check_packing, [(HALF, path) for path in PATHS]),
    (trees.check_packing, [(0.5, [cable[::-1] for cable in path]) for path in PATHS]),
    (survival.check_nodes, [(4, 5), (2, 4)]), (survival.check_times, 9_600_000 / 330_000),
    (survival.check_partner, lambda rank, ranks, each: (rank - each) % ranks),
    (channel.check_size, 90_000), (channel.check_bytes, 256_048), (elimination.check_changes, 1.7288),
    (compression.check_microbatches, 64),
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
    *((check, unfinished) for check, _ in FUNCTIONS),
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
    (translation.check_attend, lambda e, m, n: attend(e, m, len(e)), "2 words: a word that the sentence does not have"),
    (translation.check_attend, lambda e, m, n: np.exp(e[:n]) @ m[:n] / np.exp(e[:n]).sum(), "subtract the largest"),
    (translation.check_attend, lambda e, m, n: np.exp(e[:n]) @ m[:n], "by their sum"),
    (translation.check_attend, lambda e, m, n: np.exp(e[:n]), "as many numbers as a vector"),
    (translation.check_gain, lambda d, s, alpha, n: (d + alpha * n / 2 * s) / (d + alpha * s), "is rows by allgather"),
    (translation.check_gain, lambda d, s, alpha, n: (d + s) / (d + alpha * s), "that is tables sent whole"),
    (translation.check_gain, lambda d, s, alpha, n: min(n / 2, 1 / alpha), "dense elements are moved, too"),
    (translation.check_gain, lambda d, s, alpha, n: 1.0, "a dense element costs"),
    (translation.check_most, TABLE, "of one table"), (translation.check_most, PARTS[1] * TABLE, "dense elements are"),
    (translation.check_most, 1.0, "128 sentences"),
    (without_barriers.check_answers, lambda clocks, worker, s: clocks[worker] - min(clocks) < s,
     "is 0 steps ahead of the slowest, and you let it wait: a lag of S is allowed"),
    (without_barriers.check_answers, lambda clocks, worker, s: clocks[worker] - min(clocks) <= s + 1, "reaches S + 1"),
    (without_barriers.check_answers, lambda clocks, worker, s: True, "you let it go on"),
    (without_barriers.check_answers, lambda clocks, worker, s: max(clocks) - clocks[worker] <= s, "ahead of the slow"),
    (without_barriers.check_answers, lambda clocks: True, "TypeError"),
    (without_barriers.check_step_seconds, lambda seconds, backup: max(seconds), "you say 3 s; that is longer than need"),
    (without_barriers.check_step_seconds, lambda seconds, backup: sorted(seconds)[len(seconds) - backup], "IndexError"),
    (without_barriers.check_step_seconds, lambda seconds, backup: sorted(seconds)[-max(backup, 1)], "3 pushes are"),
    (without_barriers.check_step_seconds, lambda seconds, backup: sum(seconds) / len(seconds), "in which they arrive"),
    (without_barriers.check_compensated, lambda g, w, b, lam: g, "stale gradient"),
    (without_barriers.check_compensated, lambda g, w, b, lam: g + lam * g**2 * (b - w), "not from x to old"),
    (without_barriers.check_compensated, lambda g, w, b, lam: g + lam * g * (w - b), "g times g"),
    (without_barriers.check_compensated, lambda g, w, b, lam: lam * g**2 * (w - b), "add it to g"),
    (without_barriers.check_compensated, lambda g, w, b, lam: g + lam * g**3 * (w - b), "another vector"),
    (without_barriers.check_compensated, lambda g, w, b, lam: np.ones(3), "another vector"),
    (mesh.check_input_gradient, lambda grads, weights: grads[0] @ weights[0], "one member's part"),
    (mesh.check_input_gradient, lambda grads, weights: np.hstack([g @ w for g, w in zip(grads, weights)]), "added up"),
    (mesh.check_input_gradient, lambda grads, weights: [g @ w for g, w in zip(grads, weights)], "but added up"),
    (mesh.check_input_gradient, lambda grads, weights: grads[0] @ weights[0].T, "ValueError"),
    (mesh.check_input_gradient, lambda grads, weights: -summed(grads, weights), "and weights (3, 5) of each should"),
    (mesh.check_crossing, lambda p, d, f, k: p / (k * (d + f)), "that is SplitBrain's"),
    (mesh.check_crossing, lambda p, d, f, k: p / (k * d + f) / 2, "the 2 stands on both sides"),
    (mesh.check_crossing, lambda p, d, f, k: p / (k * d), "you say 2049; set what is saved"),
    (mesh.check_crossing, lambda p, d, f: p, "TypeError"),
    (mesh.check_groups, lambda n, batch, i, o: round((n * batch / o) ** 0.5), "G divides N: 1"),
    (mesh.check_groups, lambda n, batch, i, o: n, "times the least"),
    (mesh.check_groups, lambda n, batch, i, o: 1, "N = 16, MB = 64, 512 -> 64: you say 1, which sends 2.5"),
    (trees.check_rate, 300, "each card would send one vector"), (trees.check_rate, 150, "its own part"),
    (trees.check_rate, 100, "how many vectors"),
    (trees.check_parts, [{0}, {1}, {2}, {3}, {4}, {5}], "no rate is higher than 8 / 5"),
    (trees.check_parts, [{0, 1, 2}, {3, 4, 5}], "higher than 2 / 1"),
    (trees.check_parts, [{0, 1, 2}, {3, 4}], "in exactly one"),
    (trees.check_parts, [{0, 1, 2}, {2, 3, 4, 5}], "in exactly one"),
    (trees.check_parts, [{0, 1, 2, 3, 4, 5}], "two parts or more"),
    (trees.check_packing, [(1, PATHS[0])], "add up to 1"),
    (trees.check_packing, [(1, PATHS[0]), (HALF, PATHS[1])], "want 3/2 of the cable between 1 and 2"),
    (trees.check_packing, [(1, [(0, 1)])], "tree 0, [(0, 1)], does not join"),
    (trees.check_packing, [(1, [(0, 1), (1, 2), (2, 0)])], "does not join"),
    (trees.check_packing, [(1, [(0, 3), (3, 2)])], "does not join"),
    (survival.check_nodes, [(2, 5)], "no node of the tree"), (survival.check_nodes, [(3, 5)], "count from 0"),
    (survival.check_nodes, [(2, 3), (3, 4), (4, 5)], "that is a node"),
    (survival.check_times, 9.697, "keep beside the rows"), (survival.check_times, 10, "the same updates itself"),
    (survival.check_times, 30, "its row number"), (survival.check_times, 2.909, "only the rows that the step updates"),
    (survival.check_times, 330 / 9600, "the other way round"), (survival.check_times, 1, "rows of one rank"),
    (survival.check_partner, lambda rank, ranks, each: (rank + 1) % ranks, "of 2 ranks rank 0 and its partner 1 die"),
    (survival.check_partner, lambda rank, ranks, each: rank + each, "What comes after the last"),
    (survival.check_partner, lambda rank, ranks, each: 0 if rank >= each else each, "gets several copies"),
    (channel.check_size, 100_000, "the whole includes the call"), (channel.check_size, 10_000, "the call is a half"),
    (channel.check_size, 10_000 / 9, "the other way round"), (channel.check_size, 1, "a shall be a tenth of both"),
    (channel.check_bytes, 256_000, "payload alone"), (channel.check_bytes, 256_016, "a static tensor"),
    (channel.check_bytes, 256_040, "a matrix has two"), (channel.check_bytes, 1, "n + m + 8"),
    (channel.check_may_write, lambda written, read, slots: True, "0 are free, and may_write says True"),
    (channel.check_may_write, lambda written, read, slots: written == read, "1 is free, and may_write says False"),
    (channel.check_may_write, lambda written, read, slots: written - read <= slots, "0 are free"),
    (elimination.check_may_go, lambda grows, shrinks, error, up, low: (
        grows and error > low) or (shrinks and error < up), "its weight is free"),
    (elimination.check_may_go, lambda grows, shrinks, error, up, low: not up <= error <= low, "its weight is free"),
    (elimination.check_may_go, lambda grows, shrinks, error, up, low: False, "it may go"),
    (elimination.check_may_go, lambda grows, shrinks, error, up, low: not (grows and shrinks), "it must stay"),
    (elimination.check_changes, 3.4576, "takes two rounds"), (elimination.check_changes, 1.2288, "the latency, too"),
    (elimination.check_changes, 0.5, "take time, too"), (elimination.check_changes, 1.1144, "two ends"),
    (elimination.check_changes, 0.58192, "to how many ranks"), (elimination.check_changes, 0.57844, "other way round"),
    (elimination.check_changes, 7, "Divide by two latencies"),
    (compression.check_feedback, lambda g, e, codec: codec(g + e), "return two arrays"),
    (compression.check_feedback, lambda g, e, codec: (codec(g), g - codec(g)), "never sent"),
    (compression.check_feedback, lambda g, e, codec: (g + e, 0 * g), "what is encoded is the gradient and"),
    (compression.check_feedback, lambda g, e, codec: (codec(g + e), g - codec(g + e)), "sent and kept together"),
    (compression.check_microbatches, 8, "divide one by the other"),
    (compression.check_microbatches, 32, "each number twice"), (compression.check_microbatches, 1, "equal to"),
]
