"""What the hostile trials of deaths take for right: only the undisturbed bits."""

import deaths
import pytest
from deaths import FAILED, IN_WORDS, NO_START, NOT_STARTED, RIGHT, Trial, judged, kind_of, make

HASHES = ["ab01", "cd02"]
PRINTED = "parameters sha256 ab01\nstate sha256 cd02\n"
KILLED = Trial(0, 3, ["--architecture", "ps"], "1@3@0")
CUT = Trial(0, 3, ["--steps", "400"], "", "1@20")


@pytest.mark.parametrize("trial, status, printed, errors, found", [
    (KILLED, 0, PRINTED, "refimpl: rank 1: killed by SIGKILL", RIGHT),
    (KILLED, 1, PRINTED, "", FAILED),  # a result, but the launcher is not content
    (CUT, 1, PRINTED, "", RIGHT),  # the other side has ended with an error
    (KILLED, 0, PRINTED.replace("ab01", "ab03"), "", FAILED),
    (KILLED, 0, PRINTED * 2, "", FAILED),
    (KILLED, 0, "", "", FAILED),  # it claims success, and has no result
    (KILLED, 0, "", "refimpl: rank 2 gave no sign of life for 15 s, and was ended", IN_WORDS),
    (KILLED, 1, "", "a rank died before the training began", IN_WORDS),
    (CUT, 1, "", "Ranks 0 1 would be too few, so this side ends", FAILED),  # the other side should have gone on
    (KILLED, 1, "", f"{NO_START[0]}. We cannot continue.", NOT_STARTED),
    (KILLED, -9, "", f"refimpl: error: rank 0 has waited 15.0 s {NO_START[1]}. The other ranks", NOT_STARTED),
    (KILLED, 139, "", "Signal: Segmentation fault (11)", FAILED),
])
def test_only_the_undisturbed_bits_are_right(trial, status, printed, errors, found):
    assert judged(trial, status, printed, errors, HASHES) == found


@pytest.mark.parametrize("failures, found", [(0, RIGHT), (2, RIGHT), (3, NOT_STARTED)])
def test_a_job_that_does_not_start_is_started_again(monkeypatch, failures, found):
    class Job:
        def __init__(self, started):
            self.returncode, self.stdout, self.stderr = int(not started), PRINTED * started, NO_START[0] * (not started)

    jobs = iter([Job(False)] * failures + [Job(True)])
    monkeypatch.setattr(deaths, "run", lambda *_: next(jobs))
    assert make(KILLED, {kind_of(KILLED): HASHES})[0] == found


def test_trials_are_drawn_of_all_ways_and_the_same_again():
    drawn = [deaths.draw(5, number, 0.2) for number in range(200)]
    assert drawn == [deaths.draw(5, number, 0.2) for number in range(200)]
    assert {trial.options[trial.options.index("--mesh") + 1] for trial in drawn if kind_of(trial)[0]} == {"1x2", "2x2", "auto"}
    for way in deaths.WAYS:
        assert any(trial.options[:len(way)] == way for trial in drawn), way
    assert 20 < sum(bool(trial.cut) for trial in drawn) < 60
