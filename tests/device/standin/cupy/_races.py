"""What a GPU could do in another order: clocks of streams, and who touched which memory when.

Everything happens at once here, so a race does no harm, and would not be seen. It is found by what is ordered:

    a stream's work comes after its own earlier work; after what an event that it waits for came after; and after
    what the host knew to be done (``synchronize``, ``get``, ``event.done``) when it asked for it.

A clock is stream -> how many pieces of its work have surely happened (a vector clock, Mattern 1989; who touched memory
last is kept as in FastTrack, Flanagan and Freund 2009). An error, ``RaceError``, naming the array, both streams, and
both lines of the program, is

- to read memory that another stream writes, or to write what another reads or writes, with nothing that orders them;
- to give memory back while a stream uses it other than the one that it was allocated on: CuPy's pool hands it to the
  next allocation on that stream, without waiting. What a destructor finds is raised by the next work, or by
  ``raise_found``.

The default stream and streams made without non_blocking=True wait for each other, as in CUDA.
"""

import bisect
import threading

from cupy.standin import where

NOBODY = (0, 0, "")


class RaceError(AssertionError):
    """Two streams use memory, at least one of them writes it, and nothing orders them."""


class Mark:
    """Who touched a piece of memory last. write: (stream, tick, where).  reads: stream -> (tick, where) since then."""

    __slots__ = ("write", "reads")

    def __init__(self, write=NOBODY, reads=()):
        self.write, self.reads = write, dict(reads)

    def all(self):
        return [self.write, *((stream, *read) for stream, read in list(self.reads.items()))]


class Memory:
    """The marks of one allocation. start, end: addresses.  home: the stream whose pool it goes back to."""

    def __init__(self, start, size, what):
        self.start, self.end, self.what = start, start + size, what
        self.where, self.home = where(), current()
        with _lock:
            tick = _launch(self.home)[self.home]
            self.cuts, self.marks = [start], [Mark((self.home, tick, self.where))]
            if size and start not in _memory:
                bisect.insort(_allocated, start)
            if size:
                _memory[start] = self

    def over(self, start, end):
        """Return the first and the last-but-one index of the marks from one address to another, cut there."""
        return self._cut(start), self._cut(end)

    def _cut(self, address):
        place = bisect.bisect_left(self.cuts, address)
        if address < self.end and (place == len(self.cuts) or self.cuts[place] != address):
            before = self.marks[place - 1]
            self.cuts.insert(place, address)
            self.marks.insert(place, Mark(before.write, before.reads))
        return place

    def give_back(self):
        """Look whether somebody uses it yet. Called by a destructor, which cannot raise."""
        known = _joined(dict(_clocks.get(self.home, ())), _host())
        for mark in self.marks:
            for stream, tick, place in mark.all():
                if stream != self.home and known.get(stream, 0) < tick:
                    _found.append(f"{self.told()} is given back to the pool of {name_of(self.home)} while "
                                  f"{name_of(stream)} uses it ({place}): keep it until the first waits for the second")
                    break
        _given_back.append(self)

    def told(self):
        return f"{self.what or 'memory'} (allocated at {self.where})"


_lock = threading.RLock()
_clocks: dict[int, dict[int, int]] = {}  # stream -> its clock
_blocking: set[int] = set()  # streams that the default stream waits for
_names = {0: "the default stream"}
_hosts = threading.local()
_memory: dict[int, Memory] = {}
_allocated: list[int] = []  # keys of _memory, in order
_given_back: list[Memory] = []
_found: list[str] = []


def current() -> int:
    """The stream that the calling thread asks now."""
    from cupy import cuda

    return cuda.get_current_stream().ptr


def opened(stream: int, non_blocking: bool):
    """Note a new stream."""
    _names[stream] = f"stream {stream} (made at {where()})"
    if not non_blocking:
        _blocking.add(stream)


def name_of(stream: int) -> str:
    return _names.get(stream, f"stream {stream}")


def recorded(stream: int) -> dict:
    """Return the clock of an event that is recorded on a stream."""
    with _lock:
        return dict(_launch(stream))


def waits(stream: int, clock: dict):
    """Let a stream's later work come after an event."""
    with _lock:
        _joined(_launch(stream), clock)


def host_knows(clock: dict | None = None, stream: int | None = None):
    """Let what the calling thread asks for later come after an event's clock, a stream's work, or everything."""
    with _lock:
        known = [clock] if clock is not None else [_clocks.get(stream, {})] if stream is not None else _clocks.values()
        for one in known:
            _joined(_host(), one)


def ended(stream: int):
    """Note that a stream's work was given up: whatever anyone asks for comes after it."""
    with _lock:
        for clock in _clocks.values():
            _joined(clock, _clocks.get(stream, {}))


def reads(array, stream: int | None = None):
    """Note that a stream (None: the current one) reads a device array. Raises RaceError."""
    touch(*_span(array), False, stream, array._block.memory)


def writes(array, stream: int | None = None):
    """Note that a stream (None: the current one) writes a device array. Raises RaceError."""
    touch(*_span(array), True, stream, array._block.memory)


def touch(start: int, end: int, is_write: bool, stream: int | None = None, memory: Memory | None = None):
    """Note that a stream touches memory from one address to another. Raises RaceError."""
    raise_found()
    if start == end:
        return
    with _lock:
        stream = current() if stream is None else stream
        clock, memory = _launch(stream), memory or _memory_at(start)
        first, last = memory.over(start, end)
        place = where()
        for mark in memory.marks[first:last]:
            for other, tick, earlier in mark.all() if is_write else (mark.write,):
                if other != stream and clock.get(other, 0) < tick:
                    verb = "writes" if (other, tick, earlier) == mark.write else "reads"
                    raise RaceError(f"{memory.told()}: {name_of(stream)} {'writes' if is_write else 'reads'} it "
                                    f"({place}), which is not ordered after {name_of(other)}, which {verb} it "
                                    f"({earlier}): let the one wait for an event of the other")
            if not is_write:
                mark.reads[stream] = clock[stream], place
        if is_write:
            memory.marks[first:last] = [Mark((stream, clock[stream], place))]
            del memory.cuts[first + 1:last]


def raise_found():
    """Raise what destructors have found. RaceError."""
    if _found:
        found = list(_found)
        _found.clear()
        raise RaceError(found[0])


def _launch(stream):
    """Let the calling thread ask a stream for one more piece of work; return the stream's clock."""
    _forget()
    clock = _joined(_clocks.setdefault(stream, {}), _host())
    for other in _blocking if stream == 0 else [0] if stream in _blocking else ():
        _joined(clock, _clocks.get(other, {}))
    clock[stream] = clock.get(stream, 0) + 1
    return clock


def _host() -> dict:
    """What the calling thread knows to be done."""
    if not hasattr(_hosts, "clock"):
        _hosts.clock = {}
    return _hosts.clock


def _joined(clock, other):
    for stream, tick in list(other.items()):
        if clock.get(stream, 0) < tick:
            clock[stream] = tick
    return clock


def _span(array):
    from numpy.lib.array_utils import byte_bounds

    return byte_bounds(array._host) if array._host.size else (0, 0)


def _memory_at(address) -> Memory:
    place = bisect.bisect_right(_allocated, address) - 1
    return _memory[_allocated[place]]


def _forget():
    """Drop what was given back; not in the destructor, which may come in the middle of anything."""
    while _given_back:
        memory = _given_back.pop()
        if _memory.get(memory.start) is memory:
            del _memory[memory.start]
            del _allocated[bisect.bisect_left(_allocated, memory.start)]
