"""What one rank alone keeps lies at its partner, too, and fewer ranks go on from what is left. MPI need not be ULFM."""

import pytest
from mpi4py import MPI
from toys import WORKS, Recording, make_options, make_trainer

from kernels.update import OPTIMIZERS
from refimpl.gradients import leaves_of
from refimpl.server.partition import row_bytes
from refimpl.training.run.whole import hashes, slots_of
from refimpl.training.survival.backup import Backups, Part, pack
from refimpl.training.survival.decisions import dealt_anew
from refimpl.training.survival.formed import Formed
from refimpl.training.survival.memory import Memory
from refimpl.training.survival.session import DealtData
from refimpl.training.survival.undo import Undo
from refimpl.training.trainer import Trainer
from refimpl.transport import Communicator
from refimpl.transport.machines import in_blocks

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(3, 4)]
SETTINGS = {"hybrid": {}, "ps": dict(architecture="ps"), "allreduce": dict(architecture="allreduce"),
            "hot rows": dict(hot_rows=5, partitions=7), "sharded": dict(shard_optimizer=True, scheme="contiguous"),
            "machines": dict(allreduce="hierarchical"), "ps on machines": dict(architecture="ps"), "overlapped": {},
            "ps, overlapped": dict(architecture="ps")}


class Watched:
    """A trainer whose steps can be undone, and whose rows lie at partners."""

    def __init__(self, trainer):
        self.trainer, self.undo, parameters = trainer, Undo(), trainer.parameters
        trainer.consistency.before_update, trainer.consistency.after_computing = self.undo.note, self.note
        self.kept = [kept for v in parameters.variables for kept in parameters.exchange_of[v.name].kept(v.name)]
        self.backups = Backups(trainer.comm, [kept for kept in self.kept if kept.alone])
        self.backups.begin(trainer.carried)
        self.commit()

    def note(self, number, losses, sums):
        self.formed = Formed(number, losses, sums, self.trainer.carried)

    def step(self):
        self.trainer.train_step()
        self.backups.send(self.undo, self.trainer.carried)

    def commit(self):
        self.backups.commit()
        self.undo.commit()

    def memory(self):
        copies = [part for parts in self.backups.copies.values() for part in parts]
        return Memory(2, [Part.of(kept) for kept in self.kept] + copies, self.backups.states)


def hashed(trainer):
    return hashes(trainer.parameters, OPTIMIZERS["adam"].state)


@pytest.mark.parametrize("work, setting", [("toy", "hybrid"), ("toy", "ps"), ("lm", "hybrid"), ("toy", "hot rows"),
                                           ("toy", "allreduce"), ("toy", "sharded"), ("toy", "machines"),
                                           ("toy", "ps on machines"),
                                           ("lm", "overlapped"), ("toy", "ps, overlapped")])
def test_the_living_go_on_from_the_last_commit_with_the_same_bits(work, setting):
    comm, changes = Communicator.of(), dict(device="cpu", overlap="overlapped" in setting, **SETTINGS[setting])
    if "machines" in setting:  # of two ranks, who aggregate
        comm = Communicator(comm.mpi, in_blocks(comm.size, 2))
    watched = Watched(make_trainer(work, "adam", comm, **changes))
    for _ in range(2):
        watched.step()
        watched.commit()
    two_steps = hashed(watched.trainer)
    watched.step()  # a rank dies before all agree that this one is done
    undisturbed = hashed(watched.trainer)
    watched.undo.roll_back()
    fewer, ranks = comm.first(comm.size - 1), range(comm.size)
    if fewer is not None:
        model, data, _ = WORKS[work]
        counting = Recording(model())
        deal = dealt_anew([leaves_of(rank, comm.size, 8) for rank in ranks], list(ranks[:-1]))
        trainer = Trainer.open(counting, DealtData(data(), deal), make_options(work, "adam", **changes), fewer)
        trainer.consistency.formed = watched.formed
        slots = slots_of(trainer.parameters, OPTIMIZERS["adam"].state)
        trainer.restore(2, watched.memory().gather(trainer.parameters, slots, trainer.data.microbatches))
        assert hashed(trainer) == two_steps
        trainer.train_step()
        assert hashed(trainer) == undisturbed
        ours = set(deal[fewer.rank]) - set(leaves_of(fewer.rank, comm.size, 8))  # the dead rank's: only these are computed
        assert len(counting.touched) <= len(ours) < len(deal[fewer.rank])


@pytest.mark.parametrize("work, architecture", [("toy", "hybrid"), ("lm", "allreduce")])
def test_what_no_living_rank_has_is_known_to_be_lost(work, architecture):
    """Rows of an owner; of replicas nothing, but what the microbatches of the dead carry."""
    comm = Communicator.of()
    watched = Watched(make_trainer(work, "adam", comm, device="cpu", architecture=architecture))
    alone = comm.first(1)
    if alone is not None:  # 1 kept the copies of 0, and 2 those of 1
        trainer = make_trainer(work, "adam", alone, device="cpu", architecture=architecture)
        slots = slots_of(trainer.parameters, OPTIMIZERS["adam"].state)
        assert watched.memory().gather(trainer.parameters, slots, trainer.data.microbatches) is None


def test_the_bytes_of_a_backup_equal_the_formula():
    watched = Watched(make_trainer("lm", "adam", Communicator.of(), device="cpu", architecture="ps"))
    watched.step()
    sent, slots = watched.trainer.comm.ledger.sent, 1 + len(OPTIMIZERS["adam"].state)
    alone = [kept.shard for kept in watched.kept if kept.alone]
    for shard in alone:
        name, changed = shard.variable.name, len(watched.undo.changed(shard))
        if shard.variable.sparse:
            assert sent["backup", name, "indices"] == 8 * changed > 0
            assert sent["backup", name, "rows"] == changed * slots * row_bytes(shard.variable)
        else:
            assert sent["backup", name, "dense"] == slots * shard.variable.nbytes
    states = pack(watched.trainer.carried)
    assert sent["backup", "", "control"] == 8 * (len(alone) + 1) + len(states) > len(states) > 0
    total = MPI.COMM_WORLD.allreduce(watched.trainer.comm.ledger.total("sent", phase="backup"))
    assert total == MPI.COMM_WORLD.allreduce(watched.trainer.comm.ledger.total("received", phase="backup"))
