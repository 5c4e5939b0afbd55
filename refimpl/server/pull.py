"""Pull rows of sparse variables from their owners, once for all ranks of a group.

    rank --- row numbers ---> handler --- their union ---> owner      "unite", "pull"
    rank <------ rows ------- handler <------ rows ------- owner      "spread", "pull"

A rank that speaks for itself is its own handler: then all is "pull". Row numbers go first, then rows partition by
partition: while a round is handed on, the next is on its way.
"""

import numpy as np

from kernels import array_module, take_rows
from refimpl.server.lists import exchange_lists
from refimpl.server.rounds import ahead
from refimpl.server.shards import Shards


class Pull:
    """One pull. needs: name -> (k,) int64 sorted unique rows.  tables: name -> the rows that this rank owns."""

    def __init__(self, shards: Shards, tables, needs, phase: str):
        self.shards, self.comm, self.tables, self.phase = shards, shards.comm, tables, phase
        self.routes = {name: shards.places[name].route(ids) for name, ids in needs.items()}
        self.answers = {name: self._empty(name, len(ids)) for name, ids in needs.items()}

    def _empty(self, name, rows):
        table = self.tables[name]
        return array_module(table).empty((rows, table.shape[1]), table.dtype)

    def run(self) -> dict:
        """Return name -> (k, d) rows. Collective."""
        shards, names = self.shards, list(self.routes)
        self._unite()
        self.requests = exchange_lists(
            self.comm, shards.parts_of_owners([self.united[name] for name in names]),
            {h: [(name, shards.pieces[name]) for name in names] for h in shards.handlers}, self.phase)
        for pending in ahead(self._spread() if shards.mates else self._fetched()):
            pending.wait()
        return {name: route.unsort(self.answers[name]) for name, route in self.routes.items()}

    def _unite(self):
        """Learn what the group's ranks want through this one: asked[mate][j], united[name]; came: where it will lie."""
        shards, me = self.shards, self.shards.me
        through = {h: [shards.part_for(h, name, route) for name, route in self.routes.items()]
                   for h in (me, *shards.mates)}
        self.own = through.pop(me)
        self.asked = exchange_lists(self.comm, through, {m: [shards.expected(name) for name in self.routes]
                                                         for m in shards.mates}, "unite")
        self.united, self.came = {}, {}
        for j, (name, route) in enumerate(self.routes.items()):
            self.united[name] = shards.union(name, [self.own[j], *(lists[j] for lists in self.asked.values())])
            # a rank without mates handles all that it asks for: rows come to where they are wanted
            self.came[name] = self._empty(name, len(self.united[name].numbers)) if shards.mates else self.answers[name]

    def _fetch(self, number):
        """Begin a round."""
        sends, receives = [], []
        for j, (name, table) in enumerate((name, self.tables[name]) for name in self.routes):
            first, end = self.shards.served(name, number)
            if first < end:
                for handler, lists in self.requests.items():
                    rows = take_rows(table, lists[j].numbers[lists[j].piece(first, end)])
                    sends.append((handler, rows, {name: rows.size}))
            for owner in self.shards.owners:
                rows = self.came[name][self.united[name].piece(*self.shards.mine(name, number, owner))]
                receives.append((owner, rows, {name: rows.size}))
        return self.comm.start(sends, receives, self.phase, "rows")

    def _take_own(self, number):
        """Fetch the rows of a round that this rank owns itself."""
        shards = self.shards
        for name, keys in self.united.items():
            place, end = shards.places[name].span(shards.me, number, shards.me)
            if end:
                piece = keys.piece(*shards.mine(name, number, shards.me))
                local = shards.places[name].local(keys.numbers[piece], place)
                self.came[name][piece] = take_rows(self.tables[name], local)

    def _fetched(self):
        """Yield each round, begun: rows from owners to handlers."""
        for number in self.shards.rounds(self.routes):
            pending = self._fetch(number)
            self._take_own(number)
            yield pending

    def _spread(self):
        """Yield each round, begun: rows from handlers to the ranks of the group."""
        for number, pending in enumerate(ahead(self._fetched())):
            pending.wait()
            yield self._hand_on(number)

    def _hand_on(self, number):
        shards, sends, receives = self.shards, [], []
        for j, (name, route) in enumerate(self.routes.items()):
            span = shards.mine(name, number)
            for mate, lists in self.asked.items():
                rows = self._came(name, lists[j], span)
                sends.append((mate, rows, {name: rows.size}))
                rows = self.answers[name][route.part(*shards.places[name].span(mate, number))]
                receives.append((mate, rows, {name: rows.size}))
            own = route.part(*shards.places[name].span(shards.me, number))
            self.answers[name][own] = self._came(name, self.own[j], span)
        return self.comm.start(sends, receives, "spread", "rows")

    def _came(self, name, keys, span):
        """Return the rows of a part of a list, of those that came."""
        positions = np.searchsorted(self.united[name].numbers, keys.numbers[keys.piece(*span)])
        return take_rows(self.came[name], positions)
