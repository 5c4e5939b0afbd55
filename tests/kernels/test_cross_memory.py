"""Another process's memory: read and written whole, or refused; memory that nobody maps is not attachable."""

import os
import sys

import numpy as np
import pytest

from kernels.cross_memory import READ, WRITE, attachable, reaches

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="Linux's system calls")


def test_a_childs_memory_is_read_and_written():
    theirs, (ready, tell), (go, end) = np.arange(5000), os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        theirs += 1
        os.write(tell, b"1")
        os.read(go, 1)
        os._exit(0 if (theirs == np.arange(5000) + 2).all() else 1)
    os.read(ready, 1)
    mine = np.zeros(5000, np.int64)
    allowed = reaches(READ, child, mine, theirs.ctypes.data)
    assert not allowed or ((mine == np.arange(5000) + 1).all() and (theirs == np.arange(5000)).all())
    mine += 1
    allowed = allowed and reaches(WRITE, child, mine, theirs.ctypes.data)
    os.write(end, b"1")
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    for pipe in (ready, tell, go, end):
        os.close(pipe)
    if not allowed:
        pytest.skip("this host lets no process reach another's memory")
    assert status == 0
    assert not reaches(READ, child, mine, theirs.ctypes.data), "it has ended"


def test_what_is_not_mapped_is_not_attachable():
    class Nowhere:
        ctypes, nbytes = type("", (), {"data": 8}), 100

    assert not attachable(Nowhere)
    assert attachable(np.empty(0))
    own = np.ones(3)
    assert not reaches(0, os.getpid(), own, own.ctypes.data), "a system without these calls"
