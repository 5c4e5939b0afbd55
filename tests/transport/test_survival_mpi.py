"""What counts as a death, and that an MPI which ends all ranks when one dies is refused, with the command that works."""

import pytest

from refimpl.transport import Communicator
from refimpl.transport.errors import PeerDied, SilentPeer

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(1)]


def test_a_death_is_known_by_its_error():
    from mpi4py import MPI

    from refimpl.transport.survival import is_death

    failed, made_of_it = MPI.Exception(MPI.ERR_PROC_FAILED), ValueError("no array has come")
    made_of_it.__cause__ = failed
    assert is_death(failed) and is_death(made_of_it) and is_death(PeerDied("rank 1 died"))
    assert not is_death(SilentPeer("rank 1 is late")) and not is_death(ValueError("mine")) and not is_death(None)


def test_an_mpi_that_ends_all_ranks_is_refused(monkeypatch):
    from refimpl.transport.survival import check_survival

    monkeypatch.setattr("sys.argv", ["refimpl", "train", "lm", "--survive"])
    with pytest.raises(ValueError, match="mpirun --with-ft ulfm -n N .*python -m refimpl train lm --survive"):
        check_survival(Communicator.alone())
