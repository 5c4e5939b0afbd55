"""Equals plain/training/survive.py: a session that continues when ranks die, and ends with the same bits.

    open      a trainer on the living ranks, in the state of the last commit; partners get copies of what one rank keeps
    K steps   as in every session; changes are noted, and partners receive all gradients by the last step
    agree     have all ranks come here? Then this is a commit. Otherwise it is undone, and the living ranks open again

So at most K steps are repeated, those after the last commit. In the step in which a rank died, the others compute only
the dead rank's microbatches, because they keep their own sums of gradients. On a mesh the members of a group compute
together: the living ranks form new groups, and compute the whole step again. If all ranks that have some rows die
together, such as a rank and its partner, the others go back to the newest checkpoint of the run, or to its start.
"""

import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from threadpoolctl import threadpool_limits

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
from refimpl.training.survival.memory import Memory
from refimpl.training.survival.undo import Formed, Undo
from refimpl.training.trainer import metrics_of
from refimpl.transport.channel import NONE
from refimpl.transport.errors import CollectiveError
from refimpl.transport.survival import MPI_ERRORS, SurvivingCommunicator, is_death
from refimpl.words import ranks_named

ANY_DEAL = ("auto", "direct", "hierarchical")
"""Allreduce algorithms that add in tree order for any division of the microbatches among ranks."""


class DealtData:
    """Data with a list of the microbatches of each rank: see ``gradients.Dealt``. Local."""

    def __init__(self, data, deal):
        self.data, self.microbatches = data.data if isinstance(data, DealtData) else data, Dealt(deal)

    def __getattr__(self, name):
        return getattr(self.data, name)


@dataclass
class SurvivingSession(Session):
    """A ``Session`` that continues when ranks die. The constructor is local; all ranks ``train`` together.

    backup_every: K, the number of steps between commits.
    """

    backup_every: int = field(default=1, kw_only=True)
    mine = False

    def train(self, comm: SurvivingCommunicator) -> Result:
        """Train on all ranks of ``comm``; return the result on those that live. Collective.

        Raises what ``train`` raises, and CollectiveError for a death that cannot be survived.
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
            raise CollectiveError(f"a rank died, and MPI cannot go on without it ({error}): start the job again, from "
                                  "the newest checkpoint") from error

    def _survive(self, comm) -> Result:
        """Do the whole training with the ranks that live. Collective."""
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
        """Raise ValueError for options that do not go with survival. Local."""
        asked = self.options
        codecs = [codec for some in codecs_allowed(asked.codec).values() for codec in some]
        own_way = [codec for codec in codecs if codec_of(codec).strategy]
        for refused, option, why in (
                (asked.consistency != SYNCHRONOUS, f"--consistency {asked.consistency}",
                 "without barriers the ranks have no step to which all could go back"),
                (asked.device != "cpu", f"--device {asked.device}", "arrays on a GPU are not copied to a partner"),
                (asked.plan, "--plan", "it names the owners, and after a death there are fewer ranks"),
                (asked.allreduce not in ANY_DEAL, f"--allreduce {asked.allreduce}",
                 f"any ranks that are left must be able to sum in the same order: {', '.join(ANY_DEAL)}"),
                (any(codec_of(codec).scaled for codec in codecs), "--codec integers",
                 "ranks agree on a scale before they form sums, so no sums are left after a death"),
                (own_way, f"--codec {', '.join(own_way)}",
                 "a rank keeps its microbatches' messages, or what they have left out, and these would die with it"),
                (codecs_to_choose(asked.codec), "a choice of codecs", "the ranks that are left might choose another"),
                (asked.precision, f"--precision {asked.precision}", "its scale of the loss is not restored"),
                (asked.channel != NONE, f"--channel {asked.channel}", "a slot dies with its reader or its writer"),
                (asked.search_partitions, "--search-partitions", "a search must measure on the same ranks"),
                (metrics_of(self.model), "metrics of the model", "the metrics of a dead rank's microbatches are lost"),
                (self.trace, "--trace", "the spans of a rank that has died are lost")):
            if refused:
                raise ValueError(f"--survive cannot be used with {option}: {why}")

    def _go_on(self, comm) -> Result | None:
        """Do the next part: open, some steps, or the end, whose result is returned. Collective."""
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
        others = comm.size > 1  # a single rank has no partner
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
        """Begin to send the changes of the last steps to the partner. Collective."""
        with self.trainer.timeline.phase(PHASE):
            self.backups.post()

    def _keep_formed(self, number, losses, sums):
        """Keep what this rank has computed, in case the step must be repeated. Local."""
        self.formed = Formed(number, losses, sums, self.trainer.carried)

    def _load(self):
        """Continue from memory if this session was open before, else from a checkpoint. Collective."""
        trainer, comm = self.trainer, self.trainer.comm
        if dead := sorted(set(self.living) - set(comm.starters)):
            mesh = "and no layer is cut" if self.options.mesh is None else f"on the mesh {trainer.plan.on_mesh}"
            living = ranks_named(comm.starters, " ")
            self._tell(f"{ranks_named(dead, ' ')} died, {living} go{'es' * (comm.size == 1)} on"
                       + f", {mesh}" * (self.members > 1))
        if self.memory is None:
            return super()._load()
        arrays = self.memory.gather(trainer.parameters, kinds_of(trainer.parameters), trainer.data.microbatches)
        if arrays is not None:
            comm.together(lambda: trainer.restore(self.memory.step, arrays))
            return None
        saved = comm.once(lambda: "saved" if self.output is not None and steps_saved(Path(self.output)) else "")
        self.resume = self.output if saved else self.resume
        self._tell("all ranks that had some rows died together: back to "
                   + (f"the newest checkpoint in {self.resume}" if self.resume else "the first step"))
        return super()._load()

    def _commit(self):
        """Commit: all ranks have come here, and the steps so far will not be undone. Local."""
        self.undo.commit()
        self.backups.commit()
        self.opened, self.memory, self.committed = True, None, self.trainer.step
        self.living = self.trainer.comm.starters

    def _without_the_dead(self, comm, death) -> SurvivingCommunicator:
        """Undo the steps after the last commit; return a communicator of the living ranks. Collective over these."""
        if self.opened:
            self.undo.roll_back()
            copies = [part for parts in self.backups.copies.values() for part in parts]
            self.memory = Memory(self.committed, [Part.of(kept) for kept in self.kept] + copies, self.backups.states)
            self.opened = False
        living = comm.without_the_dead()
        if living.size == comm.size and death is not None:  # else MPI's agreement has failed: the steps are done again
            raise CollectiveError(f"MPI says that a rank has died, but all ranks live: {death}. Start the "
                                  "job again, from the newest checkpoint") from death
        self._deal_anew([comm.starters.index(starter) for starter in living.starters])
        return living

    def _deal_anew(self, alive):
        """Distribute the microbatches of dead ranks; on a new mesh, all microbatches evenly. Local."""
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
