"""cudaRuntime as far as it is used. REFIMPL_STANDIN_DEVICES says how many devices there are (default 1)."""

import os
import threading

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
