"""What counts as a death, and that an MPI which ends all ranks when one dies is refused, with the command that works."""

import pytest
from mpi4py import MPI

from refimpl.transport import Communicator, survival
from refimpl.transport.errors import PeerDied, SilentPeer
from refimpl.transport.survival import check_survival, is_death

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(1)]


def test_a_death_is_known_by_its_error():
    failed, made_of_it = MPI.Exception(MPI.ERR_PROC_FAILED), ValueError("no array has come")
    made_of_it.__cause__ = failed
    assert is_death(failed) and is_death(made_of_it) and is_death(PeerDied("rank 1 died"))
    assert not is_death(SilentPeer("rank 1 is late")) and not is_death(ValueError("mine")) and not is_death(None)


def test_an_mpi_that_ends_all_ranks_is_refused(monkeypatch):
    monkeypatch.setattr("sys.argv", ["refimpl", "train", "lm", "--survive"])
    with pytest.raises(ValueError, match="mpirun --with-ft ulfm -n N .*python -m refimpl train lm --survive"):
        check_survival(Communicator.alone())


@pytest.mark.parametrize("living, machines, goes_on", [
    ([0], ((0, 1, 2),), True),  # of one machine: no cable is between them
    ([1, 3], ((0, 1), (2, 3)), True),  # nor here: a rank lives on each machine
    ([1, 2], ((0,), (1,), (2,)), True), ([0], ((0,), (1,), (2,)), False),
    ([1, 2], ((0,), (1, 2), (3,)), False), ([0, 1], ((0, 1), (2, 3)), True), ([2, 3], ((0, 1), (2, 3)), False),
])
def test_at_most_one_side_of_a_cut_goes_on(living, machines, goes_on):
    assert survival.goes_on(living, machines) == goes_on
