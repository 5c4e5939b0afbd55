"""Each room has a budget of lines of Python. Adding means first looking for what can go.

    python tests/test_budgets.py       print each room's lines beside its budget

A commit that raises a budget says why. A room that has become smaller lowers it, so that the room stays small.
"""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SLACK = 0.02
"""How far a budget may lie above a room's lines: without slack, each line that goes would need a second change."""

BUDGETS = {
    "kernels": 6854,
    "models": 6207,
    "refimpl/*.py": 218,
    "refimpl/cli": 2681,
    "refimpl/collectives": 4986,
    "refimpl/conformance": 9102,
    "refimpl/enclosure": 1058,
    "refimpl/experiments": 7342,
    "refimpl/gradients": 1207,
    "refimpl/jax": 1444,
    "refimpl/notebook": 1806,
    "refimpl/pictures": 2000,
    "refimpl/plain": 4778,
    "refimpl/plan": 3129,
    "refimpl/server": 933,
    "refimpl/strategies": 1722,
    "refimpl/svm": 164,
    "refimpl/torch": 1947,
    "refimpl/training": 8077,
    "refimpl/transport": 4150,
    "tests": 46468,
}


def room_of(path: Path) -> str:
    """Return the room of a file, by its path below the repository's root: refimpl/ROOM, or the top folder."""
    parts = path.parts
    if parts[0] == "refimpl":
        return f"refimpl/{parts[1]}" if len(parts) > 2 else "refimpl/*.py"
    return parts[0]


def lines_of_rooms(root: Path) -> dict[str, int]:
    """Return room -> its lines of Python, for refimpl, models, kernels and tests."""
    lines = {}
    for top in ("refimpl", "models", "kernels", "tests"):
        for path in sorted((root / top).rglob("*.py")):
            room = room_of(path.relative_to(root))
            lines[room] = lines.get(room, 0) + path.read_text(encoding="utf-8").count("\n")
    return lines


def differences(lines: dict[str, int], budgets: dict[str, int]) -> list[str]:
    """Return a line for each room that is above its budget, far below it, or has none, with what to do."""
    found = []
    for room in sorted(lines.keys() | budgets.keys()):
        have, budget = lines.get(room, 0), budgets.get(room, 0)
        if have > budget:
            found.append(f"{room} has {have} lines and a budget of {budget}: take out {have - budget}, or raise the "
                         "budget in a commit that says why")
        elif have < budget * (1 - SLACK) - 20:
            found.append(f"{room} has {have} lines and a budget of {budget}: lower the budget to {have}")
    return found


def too_wide_or_long(root: Path) -> list[str]:
    """Return a line for each file of the product that has more than 300 lines, or a line of more than 120 characters."""
    found = []
    for path in sorted(path for top in ("refimpl", "models", "kernels") for path in (root / top).rglob("*.py")):
        lines, name = path.read_text(encoding="utf-8").splitlines(), path.relative_to(root)
        found += [f"{name} has {len(lines)} lines: one idea a file, at most 300"] * (len(lines) > 300)
        found += [f"{name}:{n} has {len(line)} characters: at most 120" for n, line in enumerate(lines, 1)
                  if len(line) > 120]
    return found


def test_files_are_short_and_lines_are_not_wide(tmp_path):
    assert too_wide_or_long(ROOT) == []
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "wide.py").write_text("pass\n" * 300 + "x = " + "1" * 117)
    assert too_wide_or_long(tmp_path) == ["models/wide.py has 301 lines: one idea a file, at most 300",
                                          "models/wide.py:301 has 121 characters: at most 120"]


def test_every_room_keeps_its_budget():
    assert differences(lines_of_rooms(ROOT), BUDGETS) == []


@pytest.mark.parametrize("lines, says", [
    (1001, "refimpl/plan has 1001 lines and a budget of 1000: take out 1, or raise"),
    (959, "refimpl/plan has 959 lines and a budget of 1000: lower the budget to 959"),
])
def test_a_room_that_grew_and_a_room_that_shrank_are_named(tmp_path, lines, says):
    (tmp_path / "refimpl" / "plan" / "layers").mkdir(parents=True)
    (tmp_path / "refimpl" / "plan" / "cost.py").write_text("pass\n" * 900)
    (tmp_path / "refimpl" / "plan" / "layers" / "sent.py").write_text("pass\n" * (lines - 900))
    assert lines_of_rooms(tmp_path) == {"refimpl/plan": lines}
    (line,) = differences(lines_of_rooms(tmp_path), dict.fromkeys(lines_of_rooms(tmp_path), 1000))
    assert line.startswith(says)


def test_a_room_without_a_budget_is_named():
    assert differences({"refimpl/attic": 3}, {})[0].startswith("refimpl/attic has 3 lines and a budget of 0")


if __name__ == "__main__":
    counted = lines_of_rooms(ROOT)
    for name in sorted(counted):
        print(f"{name:22}{counted[name]:7,} of {BUDGETS.get(name, 0):6,}")
    product = sum(lines for name, lines in counted.items() if name != "tests")
    print(f"{'refimpl, models, kernels':22}{product:7,}")
