"""What must not be: from what was seen of a trial, how it ended and which faults it has. Local, pure."""

import json
import re

FACTS = ("steps", "loss", "parameters_sha256", "state_sha256", "heldout_loss", "heldout_count", "perplexity")
"""What of a result an honest training on any ranks has to the bit."""
ERROR = "refimpl: error:"
TRACEBACK = "Traceback (most recent call last)"
ERROR_OF_OURS = re.compile(r"(?:Type|Attribute|Key|Index|Name|ZeroDivision|Overflow|Assertion)Error.*"
                           r"\((\w+)\.py:\d+, in")
"""Words of an exception that nobody raised on purpose; the file in which it came up."""
TRAINED = ("liar", "lies", "subject")
"""Files of the model and data that are trained: what comes up there is no error of ours."""
OURS = re.compile(r'File "[^"]*/(refimpl|models|kernels)/')
GOES_ON = ("set-up", "steps", "checkpoint", "evaluation")
"""Phases in which a training that was told to end has not done its work yet."""


def answer_of(stdout: str) -> dict | None:
    """Return the facts of the result that a training printed; None without one."""
    for line in reversed(stdout.splitlines()):
        if line.startswith("{") and "parameters_sha256" in line:
            try:
                result = json.loads(line)
            except ValueError:
                continue
            return {name: result.get(name) for name in FACTS}
    return None


def error_lines(stderr: str) -> list[str]:
    """Return the lines that refimpl wrote for people."""
    return [line for line in stderr.splitlines() if line.startswith(ERROR)]


def says_rank(text: str, rank: int | None) -> bool:
    """Return whether a text names a rank, ours or the launcher's words: "rank 1", "ranks 0, 1", "RANK 1"."""
    if rank is None:
        return True
    groups = re.findall(r"ranks?:? ((?:\d+(?:, )?)+)", text, re.I)
    return any(str(rank) in re.findall(r"\d+", group) for group in groups)


def has_traceback(text: str, ours_alone: bool = False) -> bool:
    """Return whether a text has a traceback; ours_alone: one through our files (Python's own start is not ours)."""
    return TRACEBACK in text and (not ours_alone or OURS.search(text) is not None)


def errors_of_ours(text: str) -> list[str]:
    """Return the fault of a text that tells of an exception out of our own code: a refusal is raised on purpose."""
    found = [ERROR_OF_OURS.search(line) for line in error_lines(text)]
    return ["an error of ours"] * any(match is not None and match[1] not in TRAINED for match in found)


def judge_shared(told, reference: dict, bound: float, names=(), rank: int | None = None) -> tuple[str, list[str]]:
    """Return (end, faults) of a trial in a shared job. told: ``Told``.

    names: the refusal must have one of them.  rank: or this culprit.
    """
    faults = ["traceback"] if has_traceback("".join(told.stderrs)) else []
    faults += ["leftover"] if told.left else []
    faults += errors_of_ours("".join(told.stderrs))
    if told.hung:
        return "hang", ["hang", *faults]
    if all(status == 0 for status in told.statuses):
        return _answered(told.stdouts[0], reference, faults)
    faults += ["slow"] if told.seconds > bound else []
    faults += ["exit status 0 on a rank"] if 0 in told.statuses else []
    faults += missing_words([error_lines(stderr) for stderr in told.stderrs], names, rank)
    return ("other end" if faults else "refused in words"), faults


def missing_words(by_rank: list[list[str]], names=(), rank: int | None = None) -> list[str]:
    """Return what is missing of the words of a refusal. by_rank: each rank's error lines."""
    if silent := [number for number, lines in enumerate(by_rank) if not lines]:
        return [f"missing words on {len(silent)} of {len(by_rank)} ranks"]
    found = ["missing words: no file is named"] if names and not all(
        any(name in line for name in names) for lines in by_rank for line in lines[:1]) else []
    if not all(says_rank(line, rank) for lines in by_rank for line in lines[:1]):
        found.append("missing words: no rank is named")
    texts = {re.sub(r"rank \d+ has waited", "a rank has waited", lines[0]) for lines in by_rank}
    return found + (["the ranks' words differ"] if len(texts) > 1 else [])


def judge_alone(seen, reference: dict, rank: int | None) -> tuple[str, list[str]]:
    """Return (end, faults) of a lying model in a job of its own. seen: ``Seen``."""
    faults = _common(seen)
    if not seen.ended:
        return "hang", ["hang", *faults]
    if seen.status == 0:
        return _answered(seen.stdout, reference, faults)
    if not error_lines(seen.stderr):
        faults.append("missing words of ours")
    elif not says_rank(seen.stderr, rank):
        faults.append("missing words: no rank is named")
    return ("other end" if faults else "refused in words"), faults


def judge_lie(lie, told: bool, end: str, faults: list[str]) -> tuple[str, list[str]]:
    """Return (end, faults) of a lying model, once ``judge_shared`` or ``judge_alone`` has said how it ended.

    lie: ``Lie``.  told: whether it was.
    """
    if not told:
        if end == "right answer":
            return "not made", faults
        return end, [*faults, "refused, though no lie was told"] if end == "refused in words" else faults
    if end == "refused in words" and lie.honest:
        return end, [*faults, "an honest model is refused"]
    if end == "right answer" and not (lie.honest or lie.harmless):
        return end, [*faults, "the lie made no difference"]
    return end, faults


def judge_signal(what: dict, seen, reference: dict) -> tuple[str, list[str]]:
    """Return (end, faults) of a training that met a signal. what: the trial's.  seen: ``Seen``."""
    faults = _common(seen, ours_alone=what["phase"] == "start")
    if not seen.ended:
        return "hang", ["hang", *faults]
    rank = int(what["target"][-1]) if what["target"].startswith("rank") else None
    if seen.status == 0:
        end, faults = _answered(seen.stdout, reference, faults)
        if end == "right answer" and not seen.delivered:
            return "not made", faults
        must_end = what["target"] != "proxy" and what["signal"] != "SIGSTOP" and what["phase"] in GOES_ON
        return end, [*faults, "went on, unnoticed"] if end == "right answer" and must_end else faults
    if not seen.delivered:
        return "other end", [*faults, "failed, though no signal was sent"]
    if rank is not None and what["phase"] != "start":
        text = seen.stderr + seen.stdout
        if not says_rank(text, rank) and not re.search(r"\bPID \d+", text):  # MPICH's launcher names a process alone
            faults.append("missing words: no rank is named")
        if what["phase"] in GOES_ON and "refimpl: " not in seen.stderr:  # its supervisor, or its peers, can speak
            faults.append("missing words of ours")
    return "ended by signal", faults


def judge_resumed(told, reference: dict) -> list[str]:
    """Return the faults of a run that was resumed from what a killed one left."""
    if told.hung:
        return ["hang on resume"]
    if any(status != 0 for status in told.statuses):
        return ["a checkpoint that does not load"]
    answer = answer_of(told.stdouts[0]) or {}
    if answer.get("steps") == reference["steps"] and answer["loss"] is None:  # nothing was left to do
        answer["loss"] = reference["loss"]
    return [] if answer == reference else ["another answer on resume"]


def _answered(stdout, reference, faults) -> tuple[str, list[str]]:
    """Return (end, faults) of a training that has ended with a result."""
    if answer_of(stdout) == reference:
        return "right answer", faults
    return "silent acceptance", ["silent acceptance", *faults]


def _common(seen, ours_alone=False) -> list[str]:
    traceback = has_traceback(seen.stderr, ours_alone)
    left = ["leftover"] * bool(seen.left and seen.ended)
    return ["traceback"] * traceback + left + errors_of_ours(seen.stderr)
