"""A rank keeps the memory that a step frees, so that the next step needs no new pages."""

import subprocess
import sys

import pytest

PAGES = """
import resource
import refimpl.__main__
refimpl.__main__.keep_freed_memory()
import numpy as np
def new_pages():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    arrays = [np.ones(2**17) for _ in range(50)]
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
print(new_pages(), new_pages())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="a setting of glibc")
def test_freed_memory_is_used_again():
    told = subprocess.run([sys.executable, "-c", PAGES], capture_output=True, text=True, check=True).stdout
    first, second = map(int, told.split())
    if first < 10_000:
        pytest.skip("these pages are larger than 4 KiB")
    assert second < first / 100
