"""Open the run directory of a training: its first files, and the metrics that a resumed run keeps."""

from dataclasses import asdict

from refimpl.training.consistency.served.flight import steps_done
from refimpl.training.run.checkpoint import check_saveable
from refimpl.training.run.directory import RunDirectory
from refimpl.training.trainer import Trainer


def choices_of(trainer: Trainer) -> list[str | None]:
    """Return the automatic choices and their reasons as text, or None. Local."""
    return [trainer.device.told(trainer.options.device), getattr(trainer.comm.device_transport, "reason", None),
            trainer.overlap_choice.reason, trainer.reason]


def idle_ranks(trainer: Trainer) -> str | None:
    """Return advice for a training with more ranks than microbatches; None for others. Local."""
    ranks, microbatches = trainer.comm.size, trainer.data.microbatches
    return (f"only {microbatches} of {ranks} ranks have a microbatch to compute: give --microbatches {ranks} or "
            f"more, or start {microbatches} ranks") if ranks > microbatches else None


def open_directory(trainer: Trainer, output, describe: dict, continues: bool) -> RunDirectory:
    """Return the run directory of a training. Local to rank 0; raises ValueError or OSError with a remedy.

    continues: whether the run is resumed from its own checkpoint there; metrics of later steps are then dropped.
    """
    check_saveable(trainer, describe)
    config = {"describe": describe, "options": trainer.options.to_json(), "ranks": trainer.comm.size,
              "microbatches": trainer.data.microbatches, "device": trainer.device.to_json(),
              "overlap": asdict(trainer.overlap_choice)}
    done, step = steps_done(trainer.found_in_flight), trainer.step
    return RunDirectory(output, config, trainer.plan.to_json(), (
        lambda record: record["step"] <= done.get(record.get("worker"), step)) if continues else None)
