"""What a user can say wrongly on the command line: one clear line each, status 1 or 2, soon; and no traceback."""

import shlex
import time

import pytest

from refimpl.cli import main
from refimpl.collectives import effort
from refimpl.collectives.effort import Effort, of_proof, of_simulation, require
from refimpl.transport.job.host import memory

LM = "train lm --data synthetic:300 --preset tiny --no-output"
CNN = "train cnn --preset tiny --no-output"
PLAN = "plan lm --data synthetic:300 --preset tiny"
CLUSTER = "cluster --machines 2 --rate 200mbit"
HUGE = 10**12
WRONG_SIZES = ("0", "-1", "1.5", "1,2", "abc", "inf", "")
SECONDS = 60  # of a line, on a machine that has much else to do; alone it takes a tenth of a second to two

SIZES = [
    *((f"{LM} --set hidden={value}", "hidden must be a positive integer, not ") for value in WRONG_SIZES),
    *((f"{LM} --set {size}={value}", f"{size} must be a positive integer")
      for size in ("embedding", "layers", "samples", "projection") for value in ("-1", "abc")),
    *((f"{LM} --set keep={value}", "keep=") for value in WRONG_SIZES),
    *((f"{CNN} --set width={value}", "width must be a positive integer, not ") for value in ("0", "1.5")),
    *((f"{CNN} --set blocks={value}", "blocks must be positive integers, not ")
      for value in (*WRONG_SIZES, "1,-1", "1,0") if value != "1,2"),
    *((f"{CNN} --set augment={value}", "augment must be 1 (yes) or 0 (no), not ")
      for value in ("2", "1.5", "abc")),
    (f"{CNN} --set flip=2", "flip must be 1 (yes) or 0 (no), not "),
    *((f"{LM} --set {size}={HUGE}", "choose smaller sizes (--preset, --set, --data), or more hosts")
      for size in ("embedding", "hidden", "projection")),
    (f"{CNN} --set width={HUGE}", "choose smaller sizes"),
    (f"plan cnn --preset tiny --set width={HUGE}", "no array has more than 9.22e+18: choose smaller sizes"),
    (f"{LM} --set layers={HUGE}", "give at most 1000"), (f"{CNN} --set blocks={HUGE}", "give at most 1000"),
    (f"{PLAN} --set hidden=0", "hidden must be"), (f"{PLAN} --set layers={HUGE}", "give at most 1000"),
    (f"{LM} --set =3", "'=3' should read NAME=VALUE"), (f"{LM} --set vocabulary=3", "lm has no size vocabulary"),
]

WHOLE = {"--microbatches": 1, "--microbatch-size": 1, "--window": 1, "--heldout": 0, "--steps": 0, "--rate-steps": 0,
         "--warmup": 0, "--partitions": 1, "--hot-rows": 0, "--search-sample": 1, "--search-warmup": 0,
         "--memory-limit": 1, "--checkpoint-every": 1, "--evaluate-every": 1}
REAL = {"--learning-rate": "of at least 0", "--weight-decay": "of at least 0", "--clip-norm": "above 0",
        "--timeout": "above 0"}
NUMBERS = [
    *((f"{LM} {option}={value}", f"argument {option}: '{value}' is not a whole number of at least {least}")
      for option, least in WHOLE.items() for value in (least - 1, "text")),
    *((f"{LM} --steps={value}", f"argument --steps: '{value}' is not a whole number") for value in ("nan", "1.5", "")),
    *((f"{LM} {option}={value}", f"argument {option}: '{value}' is not a number {bound}")
      for option, bound in REAL.items() for value in (-1, "nan")),
    *((f"{LM} --timeout={value}", f"'{value}' is not a number above 0") for value in ("inf", "1e400", "text", "", "0")),
    *((f"{LM} --checkpoint-every={value}", f"'{value.removesuffix('s')}' is not a number above 0")
      for value in ("0s", "-1s", "s", "nans", "1mins")),
    *((f"{LM} --microbatches {many}", "999999 examples for a step, and each microbatch needs one at least; give "
       "--microbatches 999999 or fewer") for many in (10**8, HUGE)),
    *((f"{command} --window {many}", "has at most 15625 words to predict; give --window 15625 or less")
      for command in (LM, PLAN) for many in (15626, HUGE)),
    *((f"{LM} --optimizer adam --optimizer-option {given}", "it must be at least 0 and below 1")
      for given in ("beta1=1", "beta1=5", "beta2=-3")),
    (f"{LM} --optimizer adam --optimizer-option epsilon=-1", "adam's option epsilon is -1: it must be above 0"),
    (f"{CNN} --microbatches {HUGE}", "give --microbatches 1500 or fewer"),
    *((f"{command} --microbatch-size {HUGE}", "to train on; give --microbatch-size") for command in (LM, CNN, PLAN)),
    (f"{LM} --partitions {HUGE}", "give at most 300"), ("compare lm --steps 0", "nothing to compare"),
    (f"compare lm --ranks {HUGE}", "each takes 32 MiB at least"), ("compare lm --ranks 0", "at least 1"),
    *((f"{PLAN} --ranks {ranks}", "would take about") for ranks in (10**5, HUGE)), (f"{PLAN} --ranks 0", "at least 1"),
    (f"{PLAN} --ranks 2 --machines 3", "each machine needs a rank"), (f"{PLAN} --sampled-steps 0", "at least 1"),
    (f"{PLAN} --latency 1e400", "--latency '1e400'"), (f"{PLAN} --rate nan", "--rate: "),
]

COLLECTIVES = [
    *((f"collectives show {name} --ranks {ranks}", f"on {ranks} ranks would take about ")
      for name in ("ring", "direct", "auto", "binomial-tree", "hierarchical") for ranks in (10**5, 10**8)),
    *((f"collectives simulate {name} --ranks {10**8}", "would take about ")
      for name in ("all", "ring", "direct", "double-tree", "hierarchical")),
    ("collectives simulate ring --ranks 100000", "12244 ranks"),
    (f"collectives simulate ring --ranks 4 --segments {HUGE}", f"in {HUGE} segments on 4 ranks would take"),
    (f"collectives show ring --ranks 4 --microbatches {HUGE}", "make the other sizes smaller"),
    *((f"collectives {action} --ranks={ranks}", "is not a whole number of at least 1")
      for action in ("show ring", "simulate ring", "exactness") for ranks in (0, -1, "nan", "")),
    (f"collectives show hierarchical --ranks 4 --machines {HUGE}", "give sizes that add up to 4"),
    (f"collectives exactness --ranks 4 --machines {HUGE}", "give sizes that add up to 4"),
    *((f"collectives exactness --elements {many}", "would take about") for many in (10**8, HUGE)),
    *((f"collectives simulate ring --ranks 4 --bytes {size}", "--bytes") for size in ("1e400", "1e300", "inf", "-1")),
    ("collectives show ring --ranks 4 --output=", "the name is empty"),
    ("collectives show ring --ranks 4 --output=/", "/ is a directory: name a file in it"),
]

FILES = [
    (f"{LM} --data text:/dev/zero", "/dev/zero: not a plain file"), (f"{LM} --data text:/", "Is a directory"),
    *((f"{LM} {option}=", "the name is empty: give one")
      for option in ("--output", "--resume", "--plan", "--preset", "--model", "--data")),
    (f"{PLAN} --output /", "/ is a directory"), (f"{PLAN} --network /none", "No such file"),
    *((f"bench allreduce --sizes {size}", "give a size from 4 B") for size in ("0", "1", HUGE)),
    ("bench allreduce --sizes 1KiB large", "argument --sizes: size 'large': give a number and one of b, kib"),
    ("bench rows --seconds inf", "is not a number above 0"),
    ("bench rows --rounds 0", "at least 1"), ("experiment parallax --output=", "the name is empty"),
    ("conformance run --target x --html /", "/ is a directory"), ("conformance run --target=", "the name is empty"),
    ("conformance run --target x --timeout nan", "above 0"),
    ("conformance cases --ranks 9", "the cases serve 1 to 8 ranks"), ("conformance check /none", "No such file"),
]

CLUSTERS = [
    *((f'{CLUSTER} --timeout {value} -- -c ""', "is not a number above 0") for value in ("0", "-1", "nan", "inf")),
    ('cluster --machines 2 --rate 99999999999gbit -- -c ""', "an emulated card has at most 34gbit"),
    (f'{CLUSTER} --slow 1=35gbit@0 -- -c ""', "an emulated card has at most 34gbit"),
    (f'cluster --machines {HUGE} --rate 1gbit -- -c ""', "a cluster has 1 to 250 machines"),
    (f'{CLUSTER} --ranks-per-machine {HUGE} -- -c ""', "each takes 32 MiB at least"),
    ('cluster --machines 0 --rate 1gbit -- -c ""', "at least 1"),
    (f"{CLUSTER} -- none.py", "there is no script none.py"),
    (f"{CLUSTER} -- -m none.such", "there is no module none "),
    (f"{CLUSTER} -- -m refimpl.nothing", "there is no module refimpl.nothing "),
    (f"{CLUSTER} -- -m json.tool.more", "there is no module json.tool.more "),
    (f"{CLUSTER} -- -m", "give a module after -m"),
    (f"{CLUSTER} -- nothing", "no command 'nothing'"), (f"{CLUSTER}", "nothing to run"),
]

CASES = {"sizes": SIZES, "numbers": NUMBERS, "collectives": COLLECTIVES, "files": FILES, "clusters": CLUSTERS}


def refused(line: str) -> int:
    """Run a command line; return its status."""
    try:
        return main(shlex.split(line))
    except SystemExit as left:
        return left.code


@pytest.mark.parametrize("what", CASES)
def test_one_clear_line_soon(what, capsys):
    for line, words in CASES[what]:
        began = time.monotonic()
        status, said = refused(line), capsys.readouterr().err
        assert status in (1, 2) and words in said, (line, status, said)
        assert "Traceback" not in said and time.monotonic() - began < SECONDS, (line, said)
        *_, last = (each for each in said.splitlines() if not each.endswith(" --help lists the options"))
        assert "error: " in last, (line, said)


def test_what_can_be_done_soon_is_done(capsys, monkeypatch):
    monkeypatch.setattr(effort, "GLANCE", 0.25)
    assert main(shlex.split("collectives simulate all --ranks 1000")) == 0
    said = capsys.readouterr().out
    assert "recursive-doubling" in said and "left out: to simulate ring on 1000 ranks would take" in said


def test_what_readme_simulates_is_at_a_glance():
    for name in ("ring", "direct", "halving-doubling", "hierarchical", "recursive-doubling", "rabenseifner"):
        require("to simulate it", 4096, lambda ranks: of_simulation(name, ranks), seconds=10)


def test_the_most_that_is_named_is_the_most():
    with pytest.raises(ValueError, match="the limit is 60 s and .* GiB, which is enough for 584 ranks"):
        require("to show it", 10**9, lambda ranks: of_proof("ring", ranks))
    require("to show it", 584, lambda ranks: of_proof("ring", ranks))
    with pytest.raises(ValueError, match="about 60.1 s"):
        require("to show it", 585, lambda ranks: of_proof("ring", ranks))
    with pytest.raises(ValueError, match="GiB of memory.*enough for no number of ranks"):
        require("it", 1, lambda ranks: Effort(0, 1 + memory() * ranks))
