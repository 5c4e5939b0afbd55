"""A progress bar on a terminal, a few lines elsewhere. It is on stdout like the result, so their order is kept."""

import sys
import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


class StepProgress:
    """Shows step, loss and speed during a training, or nothing if ``quiet``. per: the unit of the speed."""

    def __init__(self, steps: int, unit: str, quiet: bool, per: str = "s"):
        self.steps, self.unit, self.quiet, self.per = steps, unit, quiet, per
        self.bar, self.last, self.speed = None, None, None
        self.every = max(1, steps // 5)

    def __enter__(self):
        console = Console(file=sys.stdout)
        if not self.quiet and console.is_terminal:
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn(),
                       TextColumn("{task.fields[text]}"))
            self.bar = Progress(*columns, console=console, refresh_per_second=4)
            self.bar.start()
            self.task = self.bar.add_task("steps", total=self.steps, text="")
        return self

    def __exit__(self, *error):
        if self.bar is not None:
            self.bar.stop()

    def show(self, record: dict):
        """Show a step's metrics."""
        if self.quiet:
            return
        now = time.perf_counter()
        if self.last is not None:
            current = record["examples"] / (now - self.last)
            self.speed = current if self.speed is None else 0.9 * self.speed + 0.1 * current
        self.last = now
        text = f"loss {record['loss']:.3f}" + (f"  {self.speed:,.0f} {self.unit}/{self.per}" if self.speed else "")
        if self.bar is not None:
            self.bar.update(self.task, completed=record["step"], text=text)
        elif record["step"] % self.every == 0 or record["step"] == self.steps:
            print(f"step {record['step']}/{self.steps}  {text}", flush=True)
