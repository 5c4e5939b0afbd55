"""Whether exchanges overlap with computation: as told, or where few ranks share a core, and why."""

import pytest

from refimpl.training.step.overlap_choice import OverlapChoice, choose_overlap, hosts_of
from refimpl.transport.machines import in_blocks


@pytest.mark.parametrize("machines", [in_blocks(4, 4), in_blocks(4, 1)])
@pytest.mark.parametrize("hosts", [[(1, 8)], [(64, 1)]])
def test_what_is_asked_for_is_done(machines, hosts):
    for wanted in (True, False):
        assert choose_overlap(wanted, True, machines, hosts) == OverlapChoice("thread" if wanted else "no")
    assert choose_overlap(False, False, machines, hosts) == OverlapChoice("no")
    with pytest.raises(ValueError, match="MPI_THREAD_MULTIPLE.*--no-overlap"):
        choose_overlap(True, False, machines, hosts)


@pytest.mark.parametrize("hosts, on_gpu, on, words", [
    ([(2, 2), (4, 2)], False, True, "at most 2 ranks a core (--no-overlap"),
    ([(2, 4), (5, 2), (2, 8)], False, False, "5 ranks of a host share 2 cores (--overlap"),
    ([(16, 1)], False, False, "16 ranks of a host share 1 core (--overlap"),
    ([(16, 1)], True, True, "GPUs compute (--no-overlap"),
])
def test_without_a_word_it_overlaps_where_few_ranks_share_a_core(hosts, on_gpu, on, words):
    choice = choose_overlap(None, True, in_blocks(4, 2), hosts, on_gpu)
    assert choice.way == ("thread" if on else "no") and words in choice.reason


@pytest.mark.parametrize("hosts", [[(2, 8)], [(16, 1)]])
def test_where_each_machine_has_one_rank_dense_gradients_leave_early(hosts):
    for threads in (True, False):
        choice = choose_overlap(None, threads, in_blocks(3, 1), hosts)
        assert choice.way == "early" and "(--no-overlap" in choice.reason
    assert choose_overlap(None, True, in_blocks(3, 1), hosts, on_gpu=True).way == "thread"


def test_ranks_bound_to_a_core_each_share_none():
    bound = [[4, [0]], [4, [1]], [4, [4]], [4, [5]]]
    free = [[4, [0, 1, 2]]] * 4
    pinned = [[4, [0]]] * 4
    machines = in_blocks(4, 2)
    assert hosts_of(bound, machines) == [(4, 2)] * 2 and hosts_of(free, machines) == [(4, 3)] * 2
    assert choose_overlap(None, True, machines, hosts_of(bound, machines)).way == "thread"
    assert choose_overlap(None, True, machines, hosts_of(pinned, machines)).way == "no"


def test_one_machine_and_an_mpi_of_one_thread_do_not_overlap():
    assert choose_overlap(None, True, in_blocks(2, 2), [(1, 8)]) == OverlapChoice("no")
    choice = choose_overlap(None, False, in_blocks(4, 2), [(1, 8)])
    assert choice.way == "no" and "MPI_THREAD_MULTIPLE" in choice.reason
