"""What one rank alone keeps lies at its partner, too, and fewer ranks go on from what is left. MPI need not be ULFM."""

import pytest
from mpi4py import MPI
from toys import WORKS, Recording, make_options, make_trainer

from kernels.update import OPTIMIZERS
from refimpl.gradients import leaves_of
from refimpl.server.partition import row_bytes
from refimpl.training.run.whole import hashes, kinds_of
from refimpl.training.survival.backup import Backups, Part, pack
from refimpl.training.survival.decisions import dealt_anew
from refimpl.training.survival.memory import Memory
from refimpl.training.survival.session import DealtData
from refimpl.training.survival.undo import Formed, Undo
from refimpl.training.trainer import Trainer
from refimpl.transport import Communicator
from refimpl.transport.errors import CollectiveError
from refimpl.transport.machines import in_blocks
from refimpl.transport.survival import before_training

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(3, 4)]
SETTINGS = {"hybrid": {}, "ps": dict(architecture="ps"), "allreduce": dict(architecture="allreduce"),
            "hot rows": dict(hot_rows=5, partitions=7), "sharded": dict(shard_optimizer=True, scheme="contiguous"),
            "machines": dict(allreduce="hierarchical"), "ps on machines": dict(architecture="ps"), "overlapped": {},
            "ps, overlapped": dict(architecture="ps"), "ps, 3 at a time": dict(architecture="ps"), "3 at a time": {},
            "overlapped, 3 at a time": {}, "lamb": {}, "lars, 3 at a time": {}, "chosen": dict(architecture="auto"),
            "popular": dict(architecture="ps", balance="popularity", hot_rows="auto")}


class Watched:
    """A trainer whose steps can be undone, and whose rows lie at partners."""

    def __init__(self, trainer):
        self.trainer, self.undo, parameters = trainer, Undo(), trainer.parameters
        steps = trainer.consistency
        steps.before_update = self.undo.note
        if steps.mesh is None:
            steps.after_computing = self.note
        self.kept = [kept for v in parameters.variables for kept in parameters.exchange_of[v.name].kept(v.name)]
        self.backups = Backups(trainer.comm, [kept for kept in self.kept if kept.alone], trainer.model.variables,
                               steps.redo)
        steps.after_update, steps.between = self.backups.note, self.backups.post
        self.backups.begin(trainer.carried)
        self.commit()

    def note(self, number, losses, sums):
        self.formed = Formed(number, losses, sums, self.trainer.carried)

    def steps(self, number=1):
        """Do so many; the gradients of all but the last leave while the next one computes, without overlap."""
        for _ in range(number):
            self.trainer.train_step()
        self.backups.send(self.trainer.carried)

    def commit(self):
        self.backups.commit()
        self.undo.commit()

    def memory(self):
        copies = [part for parts in self.backups.copies.values() for part in parts]
        return Memory(3, [Part.of(kept) for kept in self.kept] + copies, self.backups.states)

    def die(self, *numbers):
        """Commit after so many steps each; return what is then, and what is after one more, which is undone."""
        for number in numbers:
            self.steps(number)
            self.commit()
        committed = hashed(self.trainer)
        self.steps()  # a rank dies before all agree that this one is done
        undisturbed = hashed(self.trainer)
        self.undo.roll_back()
        return committed, undisturbed

    def arrays(self, trainer):
        """Return what the living ranks have, as another trainer restores it; None if some of it is lost."""
        kinds = kinds_of(trainer.parameters)
        return self.memory().gather(trainer.parameters, kinds, trainer.data.microbatches)


def hashed(trainer):
    return hashes(trainer.parameters)


def step_after(watched, trainer):
    """Return what is after the living have restored three steps, and after one more."""
    trainer.restore(3, watched.arrays(trainer))
    restored = hashed(trainer)
    trainer.train_step()
    return restored, hashed(trainer)


@pytest.mark.ranks(4)
@pytest.mark.parametrize("work, setting", [("toy", "machines"), ("toy", "ps on machines"), ("lm", "overlapped")])
def test_machines_of_two_and_nodes_of_several_microbatches_go_on_with_the_same_bits(work, setting):
    test_the_living_go_on_from_the_last_commit_with_the_same_bits(work, setting)


@pytest.mark.ranks(3)
@pytest.mark.parametrize("work, setting", [("lm", "hybrid"), ("toy", "hot rows"), ("toy", "allreduce"),
                                           ("toy", "sharded"), ("lm", "overlapped"), ("toy", "ps, overlapped"), ("lm", "3 at a time"),
                                           ("toy", "ps, 3 at a time"), ("lm", "overlapped, 3 at a time"),
                                           ("toy", "lamb"), ("lm", "lars, 3 at a time"),
                                           ("lm", "chosen"), ("toy", "popular")])
def test_the_living_go_on_from_the_last_commit_with_the_same_bits(work, setting):
    comm, changes = Communicator.of(), dict(device="cpu", overlap="overlapped" in setting, **SETTINGS[setting])
    if "machines" in setting:  # of two ranks, who aggregate
        comm = Communicator(comm.mpi, in_blocks(comm.size, 2))
    optimizer = next((name for name in ("lamb", "lars") if name in setting), "adam")
    watched = Watched(make_trainer(work, optimizer, comm, **changes))
    wanted = watched.die(*((3,) if "at a time" in setting else (2, 1)))
    fewer, ranks = comm.first(comm.size - 1), range(comm.size)
    if fewer is not None:
        model, data, _ = WORKS[work]
        counting = Recording(model())
        deal = dealt_anew([leaves_of(rank, comm.size, 8) for rank in ranks], list(ranks[:-1]))
        trainer = Trainer.open(counting, DealtData(data(), deal), make_options(work, optimizer, **changes), fewer)
        trainer.consistency.formed = watched.formed
        assert step_after(watched, trainer) == wanted
        ours = set(deal[fewer.rank]) - set(leaves_of(fewer.rank, comm.size, 8))  # the dead rank's: only these are computed
        assert len(counting.touched) <= len(ours) < len(deal[fewer.rank])


@pytest.mark.ranks(4)
@pytest.mark.parametrize("mesh, fewer, later", [("2x2", 3, None), ("2x2", 2, "1x2"), ("1x4", 3, None),
                                                ("4x1", 2, "1x2")])
@pytest.mark.parametrize("architecture", ["allreduce", "hybrid"])
def test_the_living_of_a_mesh_go_on_in_other_groups_or_none(mesh, fewer, later, architecture):
    """In groups of 2 each part is on 2 ranks; in one of 4 on one rank and, with its state, at the partner."""
    comm = Communicator(Communicator.of().mpi, in_blocks(4, 2))  # partners are on the other of two machines
    changes = dict(device="cpu", architecture=architecture, overlap=mesh == "1x4")
    watched = Watched(make_trainer("vgg", "adam", comm, mesh=mesh, **changes))
    wanted, living = watched.die(1, 1, 1), comm.first(fewer)
    if living is not None:
        assert step_after(watched, make_trainer("vgg", "adam", living, mesh=later, **changes)) == wanted


@pytest.mark.ranks(3)
@pytest.mark.parametrize("work, architecture", [("toy", "hybrid"), ("lm", "allreduce")])
def test_what_no_living_rank_has_is_known_to_be_lost(work, architecture):
    """Rows of an owner; of replicas nothing, but what the microbatches of the dead carry."""
    comm = Communicator.of()
    watched = Watched(make_trainer(work, "adam", comm, device="cpu", architecture=architecture))
    alone = comm.first(1)
    if alone is not None:  # 1 kept the copies of 0, and 2 those of 1
        assert watched.arrays(make_trainer(work, "adam", alone, device="cpu", architecture=architecture)) is None


@pytest.mark.ranks(3)
def test_the_bytes_of_a_backup_equal_the_formula():
    watched = Watched(make_trainer("lm", "adam", Communicator.of(), device="cpu", architecture="ps"))
    watched.steps()
    sent, slots = watched.trainer.comm.ledger.sent, 1 + len(OPTIMIZERS["adam"].state)
    alone = [kept.shard for kept in watched.kept if kept.alone]
    for shard in alone:
        name = shard.variable.name
        if shard.variable.sparse:
            changed = sum(len(ids) for of, ids, _ in watched.undo.rows if of is shard)
            assert sent["backup", name, "indices"] == 8 * changed > 0
            assert sent["backup", name, "rows"] == changed * row_bytes(shard.variable)
        else:
            assert sent["backup", name, "dense"] == slots * shard.variable.nbytes
    states = pack(watched.trainer.carried)
    sparse = sum(shard.variable.sparse for shard in alone)
    assert sent["backup", "", "control"] == 8 * (sparse + 1) + states.size > states.size > 0
    total = MPI.COMM_WORLD.allreduce(watched.trainer.comm.ledger.total("sent", phase="backup"))
    assert total == MPI.COMM_WORLD.allreduce(watched.trainer.comm.ledger.total("received", phase="backup"))


@pytest.mark.ranks(3)
@pytest.mark.parametrize("kind, words", [(MPI.ERR_PROC_FAILED, "^a rank died before the training began"),
                                         (MPI.ERR_TRUNCATE, r"^MPI met an error \(.+\) before the training began")])
def test_only_of_a_death_it_is_said_that_a_rank_died(kind, words):
    with pytest.raises(CollectiveError, match=words), before_training():
        raise MPI.Exception(kind)
