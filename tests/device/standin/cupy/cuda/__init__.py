"""Devices, streams, events and memory of the stand-in: everything happens at once, but for messages (``queues``)."""

import threading

from cupy import _races, standin
from cupy.cuda import memory, queues, runtime
from cupy.cuda.memory import MemoryPointer, alloc, alloc_pinned_memory

_thread = threading.local()


class Device:
    """Device(id): the current one where no id is given."""

    def __init__(self, device=None):
        self.id = runtime.getDevice() if device is None else int(device)

    def use(self):
        runtime.setDevice(self.id)

    def synchronize(self):
        standin.called("Device.synchronize", self.id)
        queues.finish(queues.of())
        _races.host_knows()

    compute_capability = "90"
    def __int__(self):
        return self.id

    def __eq__(self, other):
        return isinstance(other, Device) and self.id == other.id

    def __hash__(self):
        return hash(self.id)

    def __repr__(self):
        return f"<CUDA Device {self.id}>"

    def __enter__(self):
        self._before = runtime.getDevice()
        self.use()
        return self

    def __exit__(self, *_):
        runtime.setDevice(self._before)


class Stream:
    """A stream: what is asked of it is remembered in ``standin.calls``, and has happened already."""

    _ids = iter(range(1, 2**62))

    def __init__(self, null=False, non_blocking=False, ptds=False, priority=None):
        self.ptr = 0 if null else next(self._ids)
        if not null:
            _races.opened(self.ptr, non_blocking)

    @property
    def done(self):
        done = queues.done(queues.of(self.ptr))
        if done:
            _races.host_knows(stream=self.ptr)
        return done

    def use(self):
        _thread.stream = self
        return self

    def __enter__(self):
        stack = _thread.__dict__.setdefault("stack", [])
        stack.append(get_current_stream())
        return self.use()

    def __exit__(self, *_):
        _thread.stream = _thread.stack.pop()

    def synchronize(self):
        standin.called("Stream.synchronize", self.ptr)
        queues.finish(queues.of(self.ptr))
        _races.host_knows(stream=self.ptr)

    def record(self, event=None):
        event = Event() if event is None else event
        event.record(self)
        return event

    def wait_event(self, event):
        if not isinstance(event, Event):
            raise TypeError("wait_event takes an Event")
        standin.called("Stream.wait_event", self.ptr, event.ptr)
        queues.wait(self.ptr, event.works)
        _races.waits(self.ptr, event.clock)

Stream.null = Stream(null=True)


def get_current_stream(device_id=None):
    return getattr(_thread, "stream", Stream.null)


class Event:
    _ids = iter(range(1, 2**62))

    def __init__(self, block=False, disable_timing=False, interprocess=False):
        self.ptr, self.works = next(self._ids), []
        self.clock: dict[int, int] = {}

    @property
    def done(self):
        done = queues.done(self.works)
        if done:
            _races.host_knows(self.clock)
        return done

    def record(self, stream=None):
        stream = stream or get_current_stream()
        self.works, self.clock = queues.of(stream.ptr), _races.recorded(stream.ptr)
        standin.called("Event.record", self.ptr, stream.ptr)

    def synchronize(self):
        standin.called("Event.synchronize", self.ptr)
        queues.finish(self.works)
        _races.host_knows(self.clock)


__all__ = ["Device", "Event", "MemoryPointer", "Stream", "alloc", "alloc_pinned_memory", "get_current_stream",
           "memory", "runtime"]
