"""A session that goes on when ranks die, and ends with the bits of one in which nobody does. Plainly: plain/survive.py.

    open      a trainer on the living ranks, in the state of the last commit; partners get copies of what one rank keeps
    K steps   as in every session; what they change is noted, and the partners get all gradients by the last one
    agree     have all ranks come here? Then this is a commit. Else it is undone, and the living ranks open once more

So what is done again is what came after the last commit, K steps at most. Of the step in which a rank died the others
compute only its microbatches: they keep their own, with the sums of gradients that they have formed. On a mesh the
members of a group compute together: the living form new groups, and compute the step anew. Where all that have some
rows die together, as a rank and its partner, all go back to the newest checkpoint of the run, or to where it began.
"""

import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from threadpoolctl import threadpool_limits

from kernels.update import OPTIMIZERS
from refimpl.gradients import Dealt
from refimpl.gradients.codecs import codec_of
from refimpl.plan.codecs import codecs_allowed, codecs_to_choose
from refimpl.plan.plan import SYNCHRONOUS
from refimpl.training.memory import members_of, require_memory
from refimpl.training.planning.planning import AUTO
from refimpl.training.result import Result
from refimpl.training.run.manifest import steps_saved
from refimpl.training.run.whole import kinds_of
from refimpl.training.session import Session
from refimpl.training.survival.backup import KINDS, PHASE, Backups, Part
from refimpl.training.survival.decisions import dealt, dealt_anew, mesh_of
from refimpl.training.survival.formed import Formed
from refimpl.training.survival.memory import Memory
from refimpl.training.survival.undo import Undo
from refimpl.training.trainer import metrics_of
from refimpl.transport.channel import NONE
from refimpl.transport.errors import CollectiveError
from refimpl.transport.survival import MPI_ERRORS, SurvivingCommunicator, is_death, ranks_named

ANY_DEAL = ("auto", "direct", "hierarchical")
"""Allreduce algorithms that add in the tree's order, for any division of the microbatches among ranks."""


class DealtData:
    """Data of which each rank computes the microbatches that it is dealt: see ``gradients.Dealt``. Local."""

    def __init__(self, data, deal):
        self.data, self.microbatches = data.data if isinstance(data, DealtData) else data, Dealt(deal)

    def __getattr__(self, name):
        return getattr(self.data, name)


@dataclass
class SurvivingSession(Session):
    """A ``Session`` whose ranks can do without those that die. Local to make; all ranks ``train`` it.

    backup_every: K, after how many steps all ranks commit them.
    """

    backup_every: int = field(default=1, kw_only=True)
    mine = False

    def train(self, comm: SurvivingCommunicator) -> Result:
        """Train on all ranks of ``comm``; return the result, on those that live. Collective; raises what ``train``
        does.

        Raises CollectiveError, too, where a death cannot be survived.
        """
        comm.together(self._check, (ValueError,))
        comm.together(lambda: self._network_file(comm.rank), (ValueError, OSError))
        self.memory, self.living, self.opened, self.mine, self.formed = None, comm.starters, False, True, None
        self.members = 0 if self.options.mesh == AUTO else comm.together(  # 0: not yet chosen
            lambda: members_of(self.options, comm.size), (ValueError,))
        self.deal = dealt(comm.size, self.data.microbatches)
        try:
            with threadpool_limits(1):
                return self._survive(comm)
        except MPI_ERRORS as error:
            raise CollectiveError(f"a rank died, and MPI cannot do without it ({error}): start the job again, from the "
                                  "newest checkpoint") from error

    def _survive(self, comm) -> Result:
        """Do all that there is to do, with the ranks that are left. Collective."""
        while True:
            result, death = None, None
            try:
                with comm.one_end():
                    result = self._go_on(comm)
            except BaseException as error:
                if not is_death(error):
                    raise
                death = error
            if not comm.agreed(death is None):
                comm = self._without_the_dead(comm, death)
            elif result is not None:
                return result
            else:
                self._commit()

    def _check(self):
        """Raise ValueError for what does not go with survival. Local."""
        asked = self.options
        codecs = [codec for some in codecs_allowed(asked.codec).values() for codec in some]
        own_way = [codec for codec in codecs if codec_of(codec).strategy]
        for refused, option, why in (
                (asked.consistency != SYNCHRONOUS, f"--consistency {asked.consistency}",
                 "without barriers the ranks have no step to which all could go back"),
                (asked.device != "cpu", f"--device {asked.device}", "arrays on a GPU are not copied to a partner"),
                (asked.plan, "--plan", "it says which ranks own what, and there will be fewer"),
                (asked.allreduce not in ANY_DEAL, f"--allreduce {asked.allreduce}",
                 f"any ranks that are left must be able to sum in the same order: {', '.join(ANY_DEAL)}"),
                (any(codec_of(codec).scaled for codec in codecs), "--codec integers",
                 "its sums are not formed before ranks agree on a scale, so none are kept when a rank dies"),
                (own_way, f"--codec {', '.join(own_way)}",
                 "a rank keeps its microbatches' messages, or what they have left out, and these would die with it"),
                (codecs_to_choose(asked.codec), "a choice of codecs", "the ranks that are left might choose another"),
                (asked.precision, f"--precision {asked.precision}", "its scale of the loss is not given back"),
                (asked.channel != NONE, f"--channel {asked.channel}", "a slot dies with its reader or its writer"),
                (asked.search_partitions, "--search-partitions", "a search measures steps of the same ranks"),
                (metrics_of(self.model), "metrics of the model", "gradients of a rank that died are kept, not these"),
                (self.trace, "--trace", "the spans of a rank that has died are lost")):
            if refused:
                raise ValueError(f"--survive goes without {option}: {why}")

    def _go_on(self, comm) -> Result | None:
        """Do what comes next: open, some steps, or the end, and return the result of that. Collective."""
        if not self.opened:
            self._open(comm)
        elif self.trainer.step == self.options.steps:
            return self._finish(self.record.get("heldout", {}))
        else:
            self.record = self._whole_step()
            while not self._commits():
                self.record = self._whole_step()
        return None

    def _commits(self) -> bool:
        """Return whether ranks commit after this step. Local."""
        return self.trainer.step % self.backup_every == 0 or self.trainer.step == self.options.steps

    def _open(self, comm):
        if self.members > 1:  # fewer members of a group have larger parts
            comm.together(lambda: require_memory(self.model.variables, self.options.optimizer, comm.size,
                                                 members_of(self.options, comm.size)), (ValueError,))
        super()._open(comm)
        self.members = self.members or self.trainer.plan.on_mesh.model
        parameters, self.record = self.trainer.parameters, {}
        self.kept = [kept for v in parameters.variables for kept in parameters.exchange_of[v.name].kept(v.name)]
        others = comm.size > 1  # a rank that is alone has nobody to survive, nor to survive it
        steps = self.trainer.consistency
        self.undo, self.backups = Undo(), Backups(comm, [kept for kept in self.kept if kept.alone and others],
                                                  self.model.variables, steps.redo)
        steps.formed = self.formed
        if others:
            steps.before_update, steps.after_update, steps.between = self.undo.note, self.backups.note, self._post
            if steps.mesh is None:  # the members of a group compute each other's microbatches, too
                steps.after_computing = self._keep_formed
        self.backups.begin(self.trainer.carried)

    def _post(self):
        """Let what the steps before have changed leave for the partner. Collective."""
        with self.trainer.timeline.phase(PHASE):
            self.backups.post()

    def _keep_formed(self, number, losses, sums):
        """Keep what this rank has computed, for the step to be done again if a rank dies. Local."""
        self.formed = Formed(number, losses, sums, self.trainer.carried)

    def _load(self):
        """Continue from memory if this session was opened before, else from a checkpoint. Collective."""
        trainer, comm = self.trainer, self.trainer.comm
        if dead := sorted(set(self.living) - set(comm.starters)):
            mesh = "and no layer is cut" if self.options.mesh is None else f"on the mesh {trainer.plan.on_mesh}"
            self._tell(f"{ranks_named(dead)} died, {ranks_named(comm.starters)} go{'es' * (comm.size == 1)} on"
                       + f", {mesh}" * (self.members > 1))
        if self.memory is None:
            return super()._load()
        arrays = self.memory.gather(trainer.parameters, kinds_of(
            trainer.parameters, OPTIMIZERS[self.options.optimizer].state), trainer.data.microbatches)
        if arrays is not None:
            comm.together(lambda: trainer.restore(self.memory.step, arrays))
            return None
        saved = comm.once(lambda: "saved" if self.output is not None and steps_saved(Path(self.output)) else "")
        self.resume = self.output if saved else self.resume
        self._tell("all ranks that had some rows died together: back to "
                   + (f"the newest checkpoint in {self.resume}" if self.resume else "the first step"))
        return super()._load()

    def _commit(self):
        """All ranks have come here: what is now will not be undone. Local."""
        self.undo.commit()
        self.backups.commit()
        self.opened, self.memory, self.committed = True, None, self.trainer.step
        self.living = self.trainer.comm.starters

    def _without_the_dead(self, comm, death) -> SurvivingCommunicator:
        """Undo what came after the last commit; return a communicator of the living ranks. Collective over these."""
        if self.opened:
            self.undo.roll_back()
            self.backups.give_up()
            copies = [part for parts in self.backups.copies.values() for part in parts]
            self.memory = Memory(self.committed, [Part.of(kept) for kept in self.kept] + copies, self.backups.states)
            self.opened = False
        living = comm.without_the_dead()
        if living.size == comm.size and death is not None:  # else MPI's agreement has failed: the steps are done again
            raise CollectiveError(f"MPI says that a rank has died, but all of them live: {death}") from death
        self._deal_anew([comm.starters.index(starter) for starter in living.starters])
        return living

    def _deal_anew(self, alive):
        """Deal the microbatches of the dead; on a mesh, which is made anew, all of them evenly. Local."""
        data = self.data.data if isinstance(self.data, DealtData) else self.data
        if self.members:
            self.options = replace(self.options, mesh=mesh_of(self.members, len(alive), data.microbatches))
        if self.options.mesh is None:
            self.deal = dealt_anew(self.deal, alive)
            self.data = DealtData(data, self.deal)
        else:
            self.deal, self.data, self.formed = dealt(len(alive), data.microbatches), data, None

    def _continues(self):
        return self.mine or super()._continues()

    def _timed_step(self):
        begin = time.perf_counter()
        record, _ = super()._timed_step()
        if self._commits():
            with self.trainer.timeline.phase(PHASE):
                self.backups.send(self.trainer.carried)
            record["seconds"] = dict(self.trainer.timeline.seconds)
        return record, time.perf_counter() - begin

    def _ledger_keys(self):
        return super()._ledger_keys() + [(PHASE, "", "control")] + [
            (PHASE, v.name, kind) for v in self.model.variables for kind in KINDS[1:] if v.sparse == (kind != "dense")]
