"""cudaRuntime as far as it is used. REFIMPL_STANDIN_DEVICES says how many devices there are (default 1)."""

import ctypes
import os
import threading

from cupy import _races, standin

memcpyHostToHost, memcpyHostToDevice, memcpyDeviceToHost, memcpyDeviceToDevice, memcpyDefault = range(5)
is_hip = False
_current = threading.local()


class CUDARuntimeError(RuntimeError):
    def __init__(self, status):
        self.status = status
        super().__init__(f"cudaError {status}")


def getDeviceCount():
    return int(os.environ.get("REFIMPL_STANDIN_DEVICES", "1"))


def getDevice():
    return getattr(_current, "device", 0)


def setDevice(device):
    if not 0 <= device < getDeviceCount():
        raise CUDARuntimeError(101)
    _current.device = device


def getDeviceProperties(device):
    return {"name": b"stand-in", "major": 9, "minor": 0, "totalGlobalMem": 80 * 2**30, "multiProcessorCount": 132,
            "memoryClockRate": 2619000, "memoryBusWidth": 5120, "uuid": bytes([device] * 16)}


def deviceGetPCIBusId(device):
    return f"0000:{device:02x}:00.0"


def runtimeGetVersion():
    return 12090


def driverGetVersion():
    return 12090


def memGetInfo():
    from cupy.cuda.memory import get_default_memory_pool

    pool = get_default_memory_pool()
    total = pool.limit or 80 * 2**30
    return total - pool.used, total


def deviceSynchronize():
    from cupy.cuda import queues

    standin.called("deviceSynchronize")
    queues.finish(queues.of())
    _races.host_knows()


def streamSynchronize(stream):
    from cupy.cuda import queues

    standin.called("Stream.synchronize", stream)
    queues.finish(queues.of(stream))
    _races.host_knows(stream=stream)


def memcpy(dst, src, size, kind):
    _crossed(size, kind)
    ctypes.memmove(dst, src, size)


def memcpyAsync(dst, src, size, kind, stream):
    memcpy(dst, src, size, kind)


def memsetAsync(ptr, value, size, stream):
    ctypes.memset(ptr, value, size)


def _crossed(size, kind):
    if kind == memcpyHostToDevice:
        standin.crossed("to_device", size, "memcpy")
    elif kind == memcpyDeviceToHost:
        standin.crossed("to_host", size, "memcpy")
