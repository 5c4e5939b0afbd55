"""Sizes and times are read as they are written."""

import pytest

from refimpl.collectives.units import BYTES, SECONDS, parse, size_name


def test_what_is_written_is_read_again():
    for nbytes in (0, 1, 1023, 1 << 10, 1536, 64 << 10, 1 << 20, 5 << 29):
        assert parse(size_name(nbytes), BYTES, "--bytes") == nbytes
    assert [size_name(n) for n in (7, 64 << 10, 1 << 20)] == ["7 B", "64 KiB", "1 MiB"]
    assert parse("25MB", BYTES, "--bytes") == 25e6 and parse("1.5 us", SECONDS, "--latency") == 1.5e-6


@pytest.mark.parametrize("text", ["", "MiB", "1.2.3", "1 mile", "-1", "."])
def test_anything_else_is_refused_in_words(text):
    with pytest.raises(ValueError, match="--bytes .*give a number and one of b, kib"):
        parse(text, BYTES, "--bytes")
