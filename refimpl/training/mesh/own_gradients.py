"""Gradients of what is not cut leave as they become ready: the last microbatch's complete each sum."""

from refimpl.training.checked.model import WRITTEN, changed_since_ready
from refimpl.training.checked.written import Kept


class OwnGradients:
    """The gradients of one of this rank's microbatches, of what is not cut, as they become ready. Local to make.

    mesh: the ``MeshStep``. Each exchange is given its variables' when all of them are there; of the rank's last
    microbatch it then begins.
    """

    def __init__(self, mesh, microbatch: int):
        self.mesh, self.microbatch, self.found, self.left = mesh, microbatch, {}, set(mesh.own_names)
        self.handed_out = Kept()

    def ready(self, gradients):
        """Take gradients that are final. Collective over the ranks of their exchanges."""
        if self.mesh.model.first:
            self.handed_out.keep_gradients(gradients, self.microbatch)
        self.found |= {name: gradient for name, gradient in gradients.items() if name not in self.found}
        for exchange in dict.fromkeys(self.mesh.exchange_of[name] for name in gradients if name in self.left):
            names = [v.name for v in exchange.variables]
            if self.found.keys() >= set(names):
                self._add({name: self.found[name] for name in names}, names, exchange)
        self.mesh.advance()

    def are_none(self):
        """The microbatch has no examples."""
        for exchange in dict.fromkeys(self.mesh.exchange_of[name] for name in self.mesh.own_names):
            self._add(None, [v.name for v in exchange.variables], exchange)

    def end(self, gradients):
        """Take what features_backward returned. Raises ValueError if it is not what was ready before."""
        for name, gradient in gradients.items():
            if self.found.get(name, gradient) is not gradient:
                raise changed_since_ready(name, self.microbatch)
        if label := self.handed_out.written():
            raise changed_since_ready(*label[:2], WRITTEN)
        self.ready(gradients)

    def _add(self, gradients, names, exchange):
        self.mesh.add_some(self.microbatch, gradients, names)
        self.left -= set(names)
        if self.microbatch == self.mesh.leaves[self.mesh.group.me][-1]:
            self.mesh.begin(exchange)
