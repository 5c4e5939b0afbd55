"""The pictures of the mesh show who holds what, and of the moves what was moved: nothing else."""

import numpy as np
import pytest

from refimpl.pictures.mesh import draw_mesh, draw_moves, entries, members_in, partial_sums, placed
from refimpl.plan.mesh import Mesh


def test_entries_say_where_they_belong_and_partial_sums_whose_they_are():
    assert entries(2).tolist() == [[11, 12], [21, 22]] and partial_sums(2, 1).tolist() == [[1100, 1200], [2100, 2200]]
    whole = sum(partial_sums(4, member) for member in range(4))
    assert whole[0, 3] == 14141414 and [members_in(n) for n in (11, 1212, 14141414)] == [1, 2, 4]


@pytest.mark.parametrize("members", [2, 4])
def test_what_a_member_holds_lies_in_its_place(members):
    names = entries(members)
    for member in range(members):
        mine = slice(member, member + 1)
        assert (placed(list(names[:, None]), members, member) == names).all()
        for held, place in ((names[mine], (mine, slice(None))), (list(names[:, None, mine]), (slice(None), mine))):
            found = placed(held, members, member)
            assert (found[place] == names[place]).all() and np.count_nonzero(found) == members


def test_the_mesh_says_who_holds_what():
    picture = draw_mesh(Mesh(2, 2))
    assert picture.alt.startswith("2 groups of 2 ranks.") and picture.alt.endswith("part 0: 0, 2; part 1: 1, 3")
    assert picture.numbers.splitlines()[-1].split() == ["3", "1", "1", "2", "of", "2"]
    assert picture.svg.count("rank 3") == 1 and picture.svg == draw_mesh(Mesh(2, 2)).svg


@pytest.mark.parametrize("members", [1, 2, 4])
def test_a_move_is_drawn_as_it_was_done(members):
    before = [partial_sums(members, member) for member in range(members)]
    after = [placed(sum(before)[member:member + 1], members, member) for member in range(members)]
    picture = draw_moves({"add_rows": (before, after), "own_rows": (after, after)})
    held = members * members
    assert picture.alt.endswith(f"add_rows, {held} partial sums, then {members} sums; "
                                f"own_rows, {members} entries, then {members}")
    assert picture.numbers.splitlines()[1].split()[:2] == ["add_rows", "0"]
    assert len(picture.numbers.splitlines()) == 1 + 2 * members
    assert picture.svg.count(f">{after[0][0, 0]}<") == (3 if members > 1 else 4)


def test_what_was_not_moved_is_not_drawn():
    nothing = [np.zeros((2, 2), int)] * 2
    picture = draw_moves({"gather_rows": (nothing, nothing)})
    assert "gather_rows, 0 entries, then 0" in picture.alt and "- - / - -" in picture.numbers
    assert ">11<" not in picture.svg
