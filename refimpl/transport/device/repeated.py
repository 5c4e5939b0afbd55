"""Messages that are started again at each call, for transports that have no persistent requests."""


class Repeating:
    """It gives a transport ``prepare`` and ``wait_some``, made of its ``start``; see ``protocol.Transport``."""

    def prepare(self, sends, receives, what: str, lane: int = 0) -> "Repeated":
        """Return messages that can be started again and again. Local. Raises ValueError for a lane other than 0."""
        if lane:
            raise ValueError(f"{what}: device arrays travel in one lane, 0, not in lane {lane}")
        return Repeated(self, sends, receives, what)

    def wait_some(self, started) -> list["Repeated"]:
        for messages in started:
            messages.pending.wait()
        return started

    def test_some(self, started) -> list["Repeated"]:
        """Return an empty list, because only ``wait`` tells whether a message is complete. Local."""
        return []


class Repeated:
    """Messages that are sent again with each ``start``. Local."""

    def __init__(self, transport, sends, receives, what: str):
        self.transport, self.sends, self.receives, self.what = transport, sends, receives, what
        self.pending = None

    def start(self):
        self.pending = self.transport.start(self.sends, self.receives, self.what)

    def free(self):
        self.sends = self.receives = self.pending = None
