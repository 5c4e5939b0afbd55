"""A network of links between ranks and switches, for ``simulate``: each directed link has its own rate."""

from dataclasses import dataclass

from refimpl.collectives.links.graph import Links
from refimpl.collectives.simulation.places import GraphPlaces


@dataclass(frozen=True)
class GraphNetwork:
    """links, each of which carries its rate times ``unit`` bytes/s. The rest as of ``Network``."""

    links: Links
    unit: float
    latency: float = 50e-6
    reduction: float = 4e9
    overhead: float = 0.0
    burst = 0.0

    @property
    def ranks(self) -> int:
        """How many ranks there are."""
        return self.links.ranks

    @property
    def machines(self) -> tuple[tuple[int, ...], ...]:
        """Each rank alone."""
        return tuple((rank,) for rank in range(self.ranks))

    @property
    def bandwidth_out(self) -> tuple[float, ...]:
        """Bytes/s that the links out of each rank carry together."""
        return tuple(float(self.links.out_of({rank})) * self.unit for rank in range(self.ranks))

    @property
    def bandwidth_in(self) -> tuple[float, ...]:
        """Bytes/s that the links into each rank carry together."""
        return tuple(float(self.links.into({rank})) * self.unit for rank in range(self.ranks))

    def places(self) -> GraphPlaces:
        """Return where transfers go. Local."""
        return GraphPlaces(self)
