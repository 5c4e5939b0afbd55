"""The cluster's cables: a veth pair from each machine to a bridge, and a token bucket on both of its ends.

A queue limits what leaves a card. So the queue at the machine's end limits what the machine sends, and the queue at the
bridge's end what it receives. Each machine has a second card, without limit, for the launcher's own messages (start,
output, end). As in a real cluster, these do not use the measured network.
"""

import errno
import os
from contextlib import contextmanager

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError
from pyroute2.netlink.rtnl import ndmsg

from refimpl.experiments.cluster.description import CARD, address
from refimpl.experiments.cluster.namespaces import ClusterError, enter, join

SERVICE_CARD = "service"
BURST_BYTES = 128 * 1024  # at least 64 KiB, the largest packet that TCP gives a card (GSO)
MTU = 9000  # jumbo frames, as in clusters: headers take 0.7 % of the rate; with 1500 they would take 4.4 %
LATENCY = "100ms"  # the queue holds the packets of this time; more are dropped, and TCP slows down
SERVICE_BRIDGE = "services"  # in the hub
STATIC, OF_BRIDGE = ndmsg.states["noarp"], ndmsg.flags["master"]
UPLINK = "uplink"  # the way from a card that is a bridge to all machines without a cable to it
SERVICE_NETWORK = "10.78.0.0/24"


class ClusterNetwork:
    """Bridges and links of this process's network namespace. Local. They end with the namespace."""

    def __init__(self):
        self.hub = IPRoute()
        self._up(self.hub, "lo")
        for bridge in ("bridge", SERVICE_BRIDGE):
            with _asking("a bridge", "load the kernel module bridge (as root: modprobe bridge)"):
                self.hub.link("add", ifname=bridge, kind="bridge")
            self._up(self.hub, bridge)
        self.hub.addr("add", index=self._index(self.hub, SERVICE_BRIDGE), address="10.78.0.254", prefixlen=24)
        self.machines: list[IPRoute] = []

    def connect(self, holder: int, rate: int, cables: bool = False) -> None:
        """Connect the namespace of process ``holder`` as the next machine, at ``rate`` bits/s in each direction.

        cables: whether its card is a bridge, to which ``join`` can add cables.
        """
        number = len(self.machines)
        with within(holder):
            inside = IPRoute()  # a netlink socket stays in the namespace in which it was made
        self.machines.append(inside)
        self._up(inside, "lo")
        for card, bridge, place in ((CARD, "bridge", address(number)),
                                    (SERVICE_CARD, SERVICE_BRIDGE, f"10.78.0.{number + 1}")):
            inner = UPLINK if cables and card == CARD else card
            with _asking("a veth pair", "load the kernel module veth (as root: modprobe veth)"):
                self.hub.link("add", ifname=_port(card, number), kind="veth",
                              peer={"ifname": inner, "net_ns_pid": holder})
            self.hub.link("set", index=self._index(self.hub, _port(card, number)), mtu=MTU,
                          master=self._index(self.hub, bridge))
            inside.link("set", index=self._index(inside, inner), mtu=MTU)
            if inner == UPLINK:
                self._bridge(inside)
            self._up(self.hub, _port(card, number))
            inside.addr("add", index=self._index(inside, card), address=place, prefixlen=24)
            self._up(inside, card)
        self.set_rate(number, rate, "add")

    def join(self, a: int, b: int, holder: int, there: int, back: int) -> None:
        """Join two machines by their own cable. there, back: bits/s from a to b, and back.  holder: the process of b.

        Their cards are bridges (``connect``), which send only messages for the other machine over it.
        """
        ends = (self.machines[a], f"to-{b}", there), (self.machines[b], f"to-{a}", back)
        with _asking("a veth pair", "load the kernel module veth (as root: modprobe veth)"):
            ends[0][0].link("add", ifname=ends[0][1], kind="veth", peer={"ifname": ends[1][1], "net_ns_pid": holder})
        for (end, cable, rate), (other, *_) in zip(ends, reversed(ends)):
            port, (card,) = self._index(end, cable), other.get_links(self._index(other, CARD))
            end.link("set", index=port, mtu=MTU, master=self._index(end, CARD))
            end.brport("set", index=port, learning=0, unicast_flood=0, bcast_flood=0, mcast_flood=0)
            end.fdb("add", ifindex=port, lladdr=card.get_attr("IFLA_ADDRESS"), state=STATIC, flags=OF_BRIDGE)
            self._limit(end, cable, rate, "add")
            self._up(end, cable)

    def _bridge(self, inside):
        """Make a machine's card a bridge that learns no addresses. It sends all that has no cable to the uplink."""
        (uplink,) = inside.get_links(self._index(inside, UPLINK))
        # with its own address; otherwise it would take that of a cable
        inside.link("add", ifname=CARD, kind="bridge", address=uplink.get_attr("IFLA_ADDRESS"))
        inside.link("set", index=self._index(inside, UPLINK), master=self._index(inside, CARD))
        inside.link("set", index=self._index(inside, CARD), mtu=MTU)
        inside.brport("set", index=self._index(inside, UPLINK), learning=0)
        self._up(inside, UPLINK)

    def set_rate(self, machine: int, rate: int, action: str = "change") -> None:
        """Set the rate of a machine's card, in bits/s; if its cable was cut, connect it again."""
        for end, card in ((self.hub, _port(CARD, machine)), (self.machines[machine], CARD)):
            self._limit(end, card, rate, action)
        self._up(self.hub, _port(CARD, machine))

    def _limit(self, end, card, rate, action):
        with _asking("a token bucket queue", "load the kernel module sch_tbf (as root: modprobe sch_tbf; its package "
                     "may be called kernel-modules-extra)"):
            # pyroute2 reads a number as bytes/s
            end.tc(action, "tbf", self._index(end, card), handle=0x10000, rate=rate // 8, burst=BURST_BYTES,
                   latency=LATENCY)

    def cut(self, machine: int) -> None:
        """Cut the machine's cable: its card sends and receives nothing any more."""
        self.hub.link("set", index=self._index(self.hub, _port(CARD, machine)), state="down")

    @staticmethod
    def _index(end: IPRoute, card: str) -> int:
        return end.link_lookup(ifname=card)[0]

    @classmethod
    def _up(cls, end: IPRoute, card: str) -> None:
        end.link("set", index=cls._index(end, card), state="up")


def _port(card: str, machine: int) -> str:
    return f"{card}-{machine}"


@contextmanager
def within(pid: int):
    """Enter the network namespace of process ``pid`` for the block."""
    home = os.open("/proc/self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    enter(pid, "net")
    try:
        yield
    finally:
        join(home, "net")
        os.close(home)


@contextmanager
def _asking(what: str, remedy: str):
    try:
        yield
    except NetlinkError as error:
        name = errno.errorcode.get(error.code, error.code)
        raise ClusterError(f"this kernel does not give us {what} ({name}: {error}): {remedy}") from error
