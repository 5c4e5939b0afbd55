"""What the prose of notebook 9 says of its results is what is stored below its cells."""

import re

LESSON = "9_without_barriers"


def speeds(lines):
    """Rule -> (gradients a second at first, and in a minute, times the synchronous)."""
    found = (re.match(r"(\S+) +first 12 s: (\S+) a second   a minute: (\S+), (\S+) x", line) for line in lines)
    return {match[1]: tuple(map(float, match.groups()[1:])) for match in found if match}


def test_a_bound_gains_a_head_start_only(said):
    slow = speeds(said["throughput"])
    first, minute, times = slow["bounded:2"]
    assert first > 1.3 * slow["synchronous"][0] and times < 1.1
    assert min(slow[rule][2] for rule in slow if rule not in ("synchronous", "bounded:2")) > 2
    assert [line.split()[-3:-1] for line in said["rules"] if line.split()[:2] == ["backup:1", "3"]] == [["4", "0"]]


def test_for_hiccups_it_is_as_good_as_no_rule(said):
    hiccups = speeds(said["hiccups"])
    assert hiccups["bounded:2"] == hiccups["asynchronous"] > hiccups["backup:1"] > hiccups["synchronous"]
    assert any(re.search(r"backup:1, \d+ gradients applied, [1-9]\d* dropped", line) for line in said["hiccups"])


def test_the_straggler_is_far_out(said):
    ages = [(line.split()[0], int(line.split()[1]), float(line.split()[-1][:-1])) for line in said["stale"][2:] if line]
    of = {rule: [age for name, age, _ in ages if name == rule] for rule, *_ in ages}
    assert of["asynchronous"][-1] == of["bounded:2"][-1] == 9 and of["asynchronous"][-2] == 3  # three steps of three
    assert [part for name, age, part in ages if (name, age) == ("bounded:2", 9)][0] < 2 < 9 < ages[-1][2]


def test_the_bound_flips_and_the_corrected_steps_are_those_of_one(said):
    ends = [re.findall(r"up to (\S+) below, (\S+) above", line)[0] for line in said["bound"] if line]
    assert len(ends) == 4 and all(float(below) < 0.5 and 2 < float(above) for below, above in ends)
    one, plain, corrected = (line.split()[-9:] for line in said["dc"] if line)
    assert one == corrected != plain and min(map(float, plain)) < 0


def test_the_record_is_enough_and_says_what_cannot_be(said):
    assert said["replay"][0] == "the same parameters, to the bit: True"
    outcomes = dict(line.split(": ") for line in said["swaps"] if line)
    assert {kind: re.findall(r"x ([a-z ]+)", told) for kind, told in outcomes.items()} == {
        "pull, pull": ["the same bits"], "push, push": ["other parameters"], "push, pull": ["impossible"],
        "pull, push": ["other parameters", "the same bits"]}


def test_replicas_miss_what_is_best(said):
    best, *means = map(float, re.findall(r"(?:is|EASGD|gossip|E = 8) (\d\.\d\d)", said["alone"][0]))
    assert len(means) == 3 and all(0.01 < best - mean for mean in means)
