"""Find the plan of a training: the given one, the one that ``auto`` chooses, or the architecture's.

For automatic choices rank 0 chooses for all ranks, from the data and the measured network.
"""

import json
from contextlib import suppress
from dataclasses import replace

import numpy as np

from models.layer import layers_of
from refimpl.collectives.auto import choose_algorithm
from refimpl.collectives.choose import AUTO_ON, make_schedule
from refimpl.collectives.simulation.calibrate import network_of
from refimpl.plan import make_plan
from refimpl.plan.partitions.balance import by_popularity
from refimpl.plan.choose import choose_plan
from refimpl.plan.layers.auto import choose_mesh, meshes
from refimpl.plan.make import summed_by
from refimpl.plan.mesh import with_mesh
from refimpl.plan.plan import SYNCHRONOUS, Plan
from refimpl.plan.report import describe
from refimpl.plan.sample import STEPS, Sample, take_sample
from refimpl.plan.validate import check_plan
from refimpl.plan.whole import describe_whole, with_whole
from refimpl.strategies.choose_hot import choose_hot_rows, describe_hot
from refimpl.strategies.hot_rows import with_hot_rows
from refimpl.training.checked.data import CheckedData
from refimpl.training.checked.values import check_needs
from refimpl.training.consistency import CONSISTENCIES
from refimpl.training.run.files import write_json

AUTO, HYBRID = "auto", "hybrid"


class Planning:
    """Finds the plan, after ranks have agreed on their options. The constructor is local; ``find`` is collective.

    network_file: where the calibrated network is stored for a resumed run, or None.
    early: whether sums begin during the computation, without a thread.
    """

    def __init__(self, model, data, options, comm, network_file, early):
        self.model, self.variables, self.data, self.options, self.comm = model, model.variables, data, options, comm
        self.network_file, self.measured, self.reasons, self.early = network_file, None, [], early

    def find(self) -> tuple[Plan, str | None]:
        """Return (the plan, the reason or None), the same on every rank. Raises CollectiveError."""
        if self.options.plan is not None:
            plan = self.comm.together(self._given)
        elif self.options.architecture == AUTO:
            plan = self._on_mesh(consistent(self._chosen(), self.options))
        else:
            plan = self._on_mesh(consistent(self._balanced(self._with_whole(self._of_architecture())), self.options))
        if self.options.hot_rows:
            plan = self._with_hot_rows(plan)
        return plan, "\n".join(filter(None, self.reasons)) or None

    def _once(self, choose):
        """Return rank 0's choice on all ranks, and keep the reason. choose() -> (JSON value, reason). Collective."""
        chosen, reason = json.loads(self.comm.once(lambda: json.dumps(choose())))
        self.reasons.append(reason)
        return chosen

    def _plan_once(self, choose) -> Plan:
        """Do ``_once`` for a plan. After deaths its JSON does not say who computes which microbatches. Collective."""
        def told():
            plan, reason = choose()
            return plan.to_json(), reason

        return replace(Plan.from_json(self._once(told)), microbatches=self.data.microbatches)

    def _network(self):
        """Return the network, measured or read from the file. Collective."""
        if self.measured is None:
            self.measured = network_of(self.comm, self.network_file, write_network)
        return self.measured

    def _sample(self) -> Sample:
        return sample_of(self.model, self.data, self.options.seed)

    def _given(self):
        return check_plan(Plan.from_json(self.options.plan), self.variables, self.comm.size, self.data.microbatches,
                          self.comm.machines, consistencies=CONSISTENCIES)

    def _chosen(self):
        """Return the plan that ``--architecture auto`` chooses. Collective."""
        network, options = self._network(), self.options

        def choose():
            chosen = choose_plan(self.variables, self._sample(), network, self.data.microbatches,
                                 allreduce=options.allreduce, balance=options.balance, **placing(options))
            return chosen.plan, describe(chosen)

        return self._plan_once(choose)

    def _of_architecture(self):
        """Return the plan of a named architecture. Collective."""
        options, comm = self.options, self.comm
        asked = options.allreduce
        allreduce = self._allreduce() if asked == AUTO or asked.startswith(AUTO_ON) else asked
        return comm.together(lambda: make_plan(
            self.variables, options.architecture, comm.size, self.data.microbatches, allreduce=allreduce,
            sparse_as_dense=options.sparse_as_dense, shard_optimizer=options.shard_optimizer, machines=comm.machines,
            **placing(options)), (ValueError,))

    def _with_whole(self, plan):
        """Return the plan, with tables near α = 1 sent whole if the options allow this choice. Collective.

        Rank 0 reads the rows of the first step. If model or data fail there, the step itself will give a better error.
        """
        if not goes_whole(self.options) or not plan.partitioned(self.variables) or self.comm.size == 1:
            return plan

        def choose():
            with suppress(Exception, SystemExit):
                sample = sample_of(self.model, CheckedData(self.data), self.options.seed, 1)
                chosen, reasons = with_whole(plan, self.variables, sample)
                return chosen, describe_whole(reasons)
            return plan, None

        return self._plan_once(choose)

    def _allreduce(self) -> str:
        """Return the reproducible algorithm that is predicted to be fastest on this network. Collective.

        The network is measured only if there are several machines, and something is summed by allreduce.
        """
        options, comm, microbatches = self.options, self.comm, self.data.microbatches
        layout = comm.together(lambda: summed_by(self.variables, options.architecture, options.sparse_as_dense,
                                                 options.shard_optimizer), (ValueError,))
        if layout is None:
            return AUTO
        links = options.allreduce.partition(":")[2]
        device = None if links else comm.device_transport
        if device is not None and (len(comm.machines) == 1 or device.name == "nccl"):
            return self._once(lambda: between_gpus(comm.machines, microbatches))
        network = self._network() if len(comm.machines) > 1 else None

        def choose():
            choice = choose_algorithm(microbatches, layout.size, np.dtype(layout.dtype).itemsize, comm.machines,
                                      network, options.shared_memory, links, self.early)
            return choice.algorithm, choice.reason

        return self._once(choose)

    def _balanced(self, plan):
        """Assign partitions to owners by the popularity of their rows, if the options ask for it. Collective."""
        if self.options.balance == "bytes":
            return plan

        def place():
            pulls = self._sample().pulls_per_step(self.comm.machines, self.options.local_aggregation)
            return plan.replaced(by_popularity(self.variables, plan.strategies, pulls, self.comm.size)), None

        return self._plan_once(place)

    def _on_mesh(self, plan):
        """Return the plan on the mesh in the options. Collective."""
        text = self.options.mesh
        if text == AUTO:
            network = self._network()
            text = self._once(lambda: mesh_for(self.model, self.data, network))
        return self.comm.together(lambda: with_mesh(plan, self.variables, text), (ValueError,))

    def _with_hot_rows(self, plan):
        """Return the plan with hot rows: as many as asked, or as many as are predicted to pay. Collective."""
        wanted = self.options.hot_rows
        self.comm.together(lambda: self._check_hot(plan))
        if wanted != AUTO:
            hot = {v.name: min(wanted, v.shape[0]) for v in plan.partitioned(self.variables)}
            return self._balanced(with_hot_rows(plan, hot))
        network = self._network()

        def choose():
            chosen, forecasts = choose_hot_rows(plan, self.variables, self._sample(), network)
            return chosen, describe_hot(forecasts)

        return self._balanced(self._plan_once(choose))  # partitions are of other rows now

    def _check_hot(self, plan):
        """Raise ValueError if the plan was given, or if it sends no sparse variable to the server. Local."""
        if self.options.plan is not None:
            raise ValueError("--plan already says how many rows are hot; leave --hot-rows out, or edit the plan")
        if plan.architecture != AUTO and not plan.partitioned(self.variables):
            raise ValueError(f"--hot-rows: no sparse variable of this model goes to the server under architecture "
                             f"{plan.architecture}; leave the option out, or resume with --hot-rows 0")


def consistent(plan, options) -> Plan:
    """Return the plan with the options' consistency; without barriers there is no local aggregation. Local."""
    together = plan.local_aggregation and options.consistency == SYNCHRONOUS
    return replace(plan, consistency=options.consistency, local_aggregation=together)


def placing(options) -> dict:
    """Return the options about placement and encoding of variables, as arguments of ``make_plan``. Local."""
    return {name: getattr(options, name) for name in ("partitions", "scheme", "local_aggregation", "codec")}


def goes_whole(options) -> bool:
    """Return whether "hybrid" may send tables whole: if no option says how the server keeps their rows. Local."""
    asked = (options.partitions, options.memory_limit, options.hot_rows, options.search_partitions,
             options.balance == "popularity")
    return options.architecture == HYBRID and options.consistency == SYNCHRONOUS and not any(asked)


def sample_of(model, data, seed: int, steps: int = STEPS) -> Sample:
    """Return the rows that a training will touch in some steps; the model's answers are checked. Local."""
    return take_sample(model, data, seed, steps, lambda needs: check_needs(model.variables, needs))


def between_gpus(machines, microbatches: int) -> tuple[str, str]:
    """Return (algorithm, reason) for GPUs, which share no memory: the fewest bytes between machines. Local.

    A measurement of MPI's network says nothing about NCCL's.
    """
    ranks = sum(map(len, machines))
    name = "hierarchical" if 1 < len(machines) < ranks else make_schedule("auto", ranks, microbatches).name
    return name, f"allreduce auto: {name}, in reproducible order; between GPUs nothing is measured"


def mesh_for(model, data, network) -> tuple[str | None, str]:
    """Return (the mesh on which a step is predicted to be shortest, the reason); None: no layer is cut. Local.

    data: the first step must have the most examples.
    """
    layers = layers_of(model)
    if not layers:
        return None, f"mesh auto: {type(model).__name__} names no layers, so none is cut"
    size = np.dtype(model.variables[0].dtype).itemsize
    found = meshes(layers, network, data.examples(0), data.microbatches, size)
    best = choose_mesh(found)
    others = ", ".join(f"{mesh.name} {mesh.seconds * 1e3:.4g} ms" + (f" ({mesh.refusal})" if mesh.refusal else "")
                       for mesh in found)
    return best.name, f"mesh auto: {best.name}; predicted exchanges of a step: {others}"


def write_network(path, value):
    """Write the JSON of a calibrated network to a run directory. Local to rank 0; raises OSError with a remedy."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, value)
    except OSError as problem:
        raise OSError(f"cannot write the network to {path}: {problem.strerror}; give another --output") from problem
