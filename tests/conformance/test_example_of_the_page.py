"""The example of docs/conformance.md: an implementation with its mistake gives the numbers and the words of the page."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from refimpl.conformance.case import CodecTask, Task
from refimpl.conformance.cases import all_cases
from refimpl.conformance.diagnose import summary
from refimpl.conformance.diagnose.answers import Answers
from refimpl.conformance.diagnose.search import tried
from refimpl.conformance.runner import answers_of, judge, run_local
from refimpl.notebook.exercises.numbers import DividedByPushes

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"
PREDICTED = ("sparse=sum", "sparse=per-occurrence", "sparse=per-row-count")


@pytest.mark.parametrize("task, section", [(Task, "The task of an update"), (CodecTask, "Encoded gradients")])
def test_the_fields_of_a_task(task, section):
    text = PAGE.read_text("utf-8").partition(f"### {section}\n")[2]
    table = text[text.index("| field |"):].partition("\n\n")[0]
    named = {name for cell in re.findall(r"^\| (`.*?) \|", table, re.M) for name in re.findall(r"`(\w+)`", cell)}
    assert named == {field.name for field in fields(task)}


def test_the_numbers_and_the_words_of_the_example():
    example = PAGE.read_text("utf-8").partition("### An example\n")[2].partition("\n## ")[0]
    cases = [case for case in all_cases(2) if case.name.startswith("rows/") and case.name != "rows/absent"]
    (case,) = (case for case in cases if case.name == "rows/exact")
    for rank, parts in enumerate(case.steps[0]):
        assert f"rank {rank} pushes the rows {', '.join(map(str, parts['table'].ids))}" in " ".join(example.split())
    semantics, given = answers_of(DividedByPushes, case)
    answers = Answers(judge(case, semantics, given)[1])
    first, machines = answers.seen[0], {d.code: answers._machine((d,)) for d in tried(answers.base, semantics, [case])}
    columns = [first.value, first.wanted.value, *(machines[code].answer(first.place).value for code in PREDICTED)]
    rows = [[int(i), *(round(float(column.rows[i, 0]), 3) for column in columns)] for i in first.value.ids]
    found = [[float(x) for x in line.split("|")[1:-1]] for line in re.findall(r"^\| \d.*", example, re.M)]
    assert found == [row[:3] for row in rows] + [row[:1] + row[3:] for row in rows]  # two tables
    outcome = run_local(DividedByPushes, 2, cases)
    ((diagnosis, names),) = summary(outcome.failed)
    said = " ".join(re.findall(r"```none\n(.*?)```", example, re.DOTALL)[-1].split())
    assert f"{diagnosis.words} ({diagnosis.code}) {diagnosis.evidence} in {', '.join(names[:4])} and" in said
    assert f"{len(cases) - len(names)} passed, {len(names)} failed, 1 skipped" in said
