"""A wrong command line gets two lines: what is wrong and what to write instead; where the options are listed."""

import shlex

import pytest

from refimpl.cli import main

WRONG = {
    "train --ranks 4 lm": "there is no option --ranks: mpirun starts the ranks: write mpirun -n 4 python -m refimpl tr",
    "train lm --ranks=4": "mpirun -n 4 python -m refimpl train ...",
    "train lm -n": "mpirun -n N python -m refimpl train ...",
    "train lm --lr 0.1": "there is no option --lr; did you mean --learning-rate?",
    "plan lm --lr=0.1": "there is no option --lr; did you mean --learning-rate?",
    "train lm --lerning-rate=3": "there is no option --lerning-rate; did you mean --learning-rate?",
    "train lm --batch-size 8": "there is no option --batch-size; did you mean --microbatch-size?",
    "train lm --qqqqq": "there is no option --qqqqq",
    "train lmm": "argument model: 'lmm' is none of lm, cnn, nmt, vgg; did you mean lm?",
    "train lm --optimizer adma": "--optimizer: 'adma' is none of sgd, momentum, nesterov, adagrad, adam, adamw, lars, lamb; did you mean adam?",
    "train lm --steps -3": "argument --steps: '-3' is not a whole number of at least 0",
    "train lm --consistency async": "argument --consistency: 'async' is none of synchronous, asynchronous, bounded:S, "
                                    "snapshot:S, softsync:n, backup:B, easgd:PERIOD, gossip, local:E; did you mean "
                                    "asynchronous?",
    "plan lm --consistency bounded": "did you mean bounded:S?",
    "train lm --consistency gossip:2": "'gossip:2' is none of ",
    "train lm --consistency local:x": "argument --consistency: 'local:x': E must be a whole number",
    "train lm --codec bf16": "argument --codec: 'bf16' should read WHICH=CODEC",
    "train lm --codec dense=bf16,": "'dense=bf16,' should read WHICH=CODEC",
    "train lm --codec dense=bf16,dense=fp16": "names the same variables twice",
    "train lm 3 --steps 2": "there is no place for 3",
    "train lm --re x": "ambiguous option: --re could match --resume, --replay",
    "collectives shwo": "argument ACTION: 'shwo' is none of exactness, simulate, trees, show; did you mean show?",
    "conformance run --targt x": "there is no option --targt; did you mean --target?",
    "cluster --machines x -- train lm --lr": "argument --machines: 'x' is not a whole number of at least 1",
    "trian lm --lr 3": "argument COMMAND: 'trian' is none of train, run, compare, ",
    "--steps 3 train lm": "there is no option --steps before the command; options follow it",
    "train": "the following arguments are required: model",
}


@pytest.mark.parametrize("line", WRONG)
def test_two_lines_say_what_is_wrong(line, capsys):
    with pytest.raises(SystemExit) as left:
        main(shlex.split(line))
    said, where = capsys.readouterr().err.splitlines()
    assert left.value.code == 2 and said.startswith("refimpl: error: ") and WRONG[line] in said
    command = {"conformance run": 2, "--steps 3": 0, "trian lm": 0}.get(" ".join(line.split()[:2]), 1)
    assert where == f"{' '.join(['python -m refimpl', *line.split()[:command]])} --help lists the options"


@pytest.mark.parametrize("line", ["train --help", "train lm --learning 3 --help", "plan -h"])
def test_help_is_what_it_was(line, capsys):
    with pytest.raises(SystemExit) as left:
        main(shlex.split(line))
    out, err = capsys.readouterr()
    assert left.value.code == 0 and out.startswith(f"usage: python -m refimpl {line.split()[0]} ") and not err
