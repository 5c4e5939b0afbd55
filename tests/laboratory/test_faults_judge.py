"""Every checker of the trials finds what it is for: planted in what was seen of a job, each fault has its word."""

import json

import pytest

from faults.batches import Told
from faults.job import Seen
from faults.judge import (FACTS, answer_of, has_traceback, judge_alone, judge_lie, judge_resumed,
                                              judge_shared, judge_signal, says_rank)
from faults.lies import LIES

ANSWER = dict(zip(FACTS, (9, 0.5, "a" * 64, "b" * 64, 1.5, 48, 4.5)))
RESULT = json.dumps({**ANSWER, "seconds": {}}) + "\n"
OTHER = json.dumps({**ANSWER, "state_sha256": "c" * 64}) + "\n"
TRACEBACK = 'Traceback (most recent call last):\n  File "/x/refimpl/cli/train.py", line 1, in f\nKeyError: 1\n'
SAID = "refimpl: error: rank 1: checkpoint-6.json is damaged\n"


def told(statuses=(1, 1, 1), stdouts=("", "", ""), stderrs=(SAID,) * 3, seconds=0.1, **more):
    return Told(list(statuses), list(stdouts), list(stderrs), seconds, **more)


OURS = "refimpl: error: rank 1: checkpoint-6.json: TypeError: no (reading.py:49, in microbatch_of)\n"

SHARED = {
    "refused": (told(), "refused in words", []),
    "answered": (told((0, 0, 0), (RESULT, "", ""), ("",) * 3), "right answer", []),
    "aborted": (told((None, None, None)), "refused in words", []),
    "each waited": (told(stderrs=[f"refimpl: error: rank {r} has waited 5 s for rank 1 for checkpoint-6.json\n"
                                  for r in range(3)]), "refused in words", []),
    "hang": (told((None, None, None), stderrs=("",) * 3, hung=True), "hang", ["hang"]),
    "silent": (told((0, 0, 0), (OTHER, "", ""), ("",) * 3), "silent acceptance", ["silent acceptance"]),
    "no answer": (told((0, 0, 0), stderrs=("",) * 3), "silent acceptance", ["silent acceptance"]),
    "traceback": (told(stderrs=(SAID + TRACEBACK, SAID, SAID)), "other end", ["traceback"]),
    "no words": (told(stderrs=(SAID, "", SAID)), "other end", ["missing words on 1 of 3 ranks"]),
    "no file": (told(stderrs=("refimpl: error: rank 1: damaged\n",) * 3), "other end",
                ["missing words: no file is named"]),
    "no rank": (told(stderrs=("refimpl: error: checkpoint-6.json\n",) * 3), "other end",
                ["missing words: no rank is named"]),
    "other words": (told(stderrs=(SAID, SAID, SAID.replace("damaged", "lost"))), "other end",
                    ["the ranks' words differ"]),
    "slow": (told(seconds=11.0), "other end", ["slow"]),
    "status": (told((0, 1, 1)), "other end", ["exit status 0 on a rank"]),
    "left": (told(left=["python 12"]), "other end", ["leftover"]),
    "error of ours": (told(stderrs=(OURS,) * 3), "other end", ["an error of ours"]),
    "error of the model's": (told(stderrs=(OURS.replace("reading", "lies"),) * 3), "refused in words", []),
}


@pytest.mark.parametrize("case", SHARED)
def test_a_trial_of_a_shared_job(case):
    seen, end, faults = SHARED[case]
    assert judge_shared(seen, ANSWER, 10.0, ["checkpoint-6.json"], 1) == (end, faults)


def seen(status=1, stderr=SAID, stdout="", ended=True, **more):
    return Seen(status, 0.1, ended, stdout, stderr, **more)


ALONE = {
    "refused": (seen(), "refused in words", []),
    "answered": (seen(0, "", RESULT), "right answer", []),
    "hang": (seen(None, ended=False, left=["python 12"]), "hang", ["hang"]),
    "silent": (seen(0, "", OTHER), "silent acceptance", ["silent acceptance"]),
    "traceback": (seen(stderr=SAID + TRACEBACK), "other end", ["traceback"]),
    "left": (seen(left=["python 12"]), "other end", ["leftover"]),
    "no words": (seen(stderr="RANK 1 KILLED"), "other end", ["missing words of ours"]),
    "error of ours": (seen(stderr=OURS), "other end", ["an error of ours"]),
    "no rank": (seen(stderr="refimpl: error: no\n"), "other end", ["missing words: no rank is named"]),
}


@pytest.mark.parametrize("case", ALONE)
def test_a_lying_model_in_a_job_of_its_own(case):
    found, end, faults = ALONE[case]
    assert judge_alone(found, ANSWER, 1) == (end, faults)


@pytest.mark.parametrize("lie, told, end, judged", [
    ("raises", True, "refused in words", ("refused in words", [])),
    ("raises", True, "right answer", ("right answer", ["the lie made no difference"])),
    ("raises", False, "right answer", ("not made", [])),
    ("raises", False, "refused in words", ("refused in words", ["refused, though no lie was told"])),
    ("fork comes back", True, "right answer", ("right answer", [])),
    ("none", True, "right answer", ("right answer", [])),
    ("none", True, "refused in words", ("refused in words", ["an honest model is refused"])),
    ("other examples", False, "hang", ("hang", []))])
def test_a_lie_that_makes_no_difference_or_is_not_told_is_no_success(lie, told, end, judged):
    assert judge_lie(LIES[lie], told, end, []) == judged


KILL = {"signal": "SIGKILL", "target": "rank 1", "phase": "steps"}
AT_THE_END = {**KILL, "phase": "end"}
SIGNALS = {
    "launcher names the rank": (AT_THE_END, seen(9, "", "RANK 1 KILLED BY SIGNAL 9"), "ended by signal", []),
    "launcher names the process": (AT_THE_END, seen(9, "", "=   PID 77 RUNNING AT vm"), "ended by signal", []),
    "nobody names it": (AT_THE_END, seen(9, "", "killed"), "ended by signal", ["missing words: no rank is named"]),
    "its supervisor is silent": (KILL, seen(9, "", "RANK 1 KILLED"), "ended by signal", ["missing words of ours"]),
    "too early for words": ({**KILL, "phase": "start"}, seen(9, ""), "ended by signal", []),
    "to the launcher": ({**KILL, "target": "launcher"}, seen(-9, ""), "ended by signal", []),
    "rank that could speak": ({**KILL, "signal": "SIGTERM"}, seen(15, "", "PID 77"), "ended by signal",
                              ["missing words of ours"]),
    "hang": ({**KILL, "signal": "SIGSTOP"}, seen(None, ended=False), "hang", ["hang"]),
    "after the end": ({**KILL, "phase": "end"}, seen(0, "", RESULT), "right answer", []),
    "unnoticed": ({**KILL, "signal": "SIGHUP"}, seen(0, "", RESULT), "right answer", ["went on, unnoticed"]),
    "not sent": (KILL, seen(0, "", RESULT, delivered=False), "not made", []),
    "failed by itself": (KILL, seen(delivered=False), "other end", ["failed, though no signal was sent"]),
    "silent": (KILL, seen(0, "", OTHER), "silent acceptance", ["silent acceptance"]),
    "left": (KILL, seen(9, SAID, left=["python 12"]), "ended by signal", ["leftover"]),
    "traceback": (KILL, seen(9, SAID + TRACEBACK), "ended by signal", ["traceback"]),
}


@pytest.mark.parametrize("case", SIGNALS)
def test_a_training_that_met_a_signal(case):
    what, found, end, faults = SIGNALS[case]
    assert judge_signal(what, found, ANSWER) == (end, faults)


def test_a_resumed_run():
    nothing_left = json.dumps({**ANSWER, "loss": None})
    assert judge_resumed(told((0, 0), (RESULT, "")), ANSWER) == []
    assert judge_resumed(told((0, 0), (nothing_left, "")), ANSWER) == []
    assert judge_resumed(told((0, 0), (OTHER, "")), ANSWER) == ["another answer on resume"]
    assert judge_resumed(told((1, 1)), ANSWER) == ["a checkpoint that does not load"]
    assert judge_resumed(told((None, None)), ANSWER) == ["a checkpoint that does not load"]
    assert judge_resumed(told((None, None), hung=True), ANSWER) == ["hang on resume"]


def test_what_is_a_traceback_an_answer_a_rank():
    early = TRACEBACK.replace("/x/refimpl/cli", "/usr/lib/python3.11")
    assert has_traceback(early) and has_traceback(TRACEBACK, ours_alone=True) and not has_traceback(early, True)
    assert answer_of("step 1\n{\n" + RESULT + "done\n") == ANSWER and answer_of('{"parameters_sha256') is None
    assert says_rank("ranks 0, 2: no", 2) and says_rank("RANK 1 PID 5", 1) and not says_rank("rank 12", 1)
    assert not says_rank("ranks 0, 1 of 2", 2) and says_rank("", None)
