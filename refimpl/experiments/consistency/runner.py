"""Run cells: replayed ones on the emulated cluster, real computation on ranks of this machine; results are kept."""

from refimpl.experiments.cluster import run_on_cluster
from refimpl.experiments.cluster.description import Event, rate_of_card
from refimpl.experiments.consistency.cells import WORKERS, Cell
from refimpl.experiments.parallax.cells.cell import SOURCES
from refimpl.experiments.parallax.cells.run import ONE_THREAD, Runner
from refimpl.transport.launch import launch


class ConsistencyRunner(Runner):
    """Runs this experiment's cells; see ``Runner``."""

    module = "refimpl.experiments.consistency.job"
    sources = (*SOURCES, "refimpl/plain/consistencies.py", "refimpl/plain/corrections.py",
               "refimpl/experiments/consistency/job.py", "refimpl/experiments/consistency/once.py")

    def start(self, cells: list[Cell], command: list[str], seconds: float):
        """Run a command on what these cells run on; return the job when it has ended. Local."""
        compute, rate, slow_rate = cells[0].cluster
        if compute == "real":
            self.say(f"{WORKERS} ranks of this machine: {len(cells)} trainings with real computation")
            return launch(WORKERS, command, timeout=seconds, capture=True, environment=ONE_THREAD)
        slow = f", that of machine {WORKERS - 1} at {slow_rate}" if slow_rate else ""
        self.say(f"{WORKERS} machines at {rate}{slow}: {len(cells)} trainings")
        events = (Event(WORKERS - 1, rate_of_card(slow_rate), 0.0),) if slow_rate else ()
        return run_on_cluster(WORKERS, 1, rate, command, timeout=seconds, capture=True, environment=ONE_THREAD,
                              events=events)
