"""The VGG network on PyTorch's two-dimensional DeviceMesh, as a PyTorch programmer would write it: our mesh's peer.

    features     DistributedDataParallel over all ranks: its buckets leave during the backward pass
    connected    ColwiseParallel and RowwiseParallel in turn over the mesh's "model" dimension, so that every second
                 gather is saved; what enters is sharded by rows, and gathered by the layer
    their sums   over the "data" dimension: one flat allreduce of a rank's parts, after the backward pass
    output       whole on every rank where the layers before it are cut in pairs; summed over all ranks

All collectives around the cut layers are DTensor's own, over gloo. Only their gradients' sum is written by hand: a
DistributedDataParallel takes no module of which some parameters are cut over another dimension and some are not.
"""

import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn import functional

from refimpl.experiments.bench.peers.torch_vgg import TorchVgg


class MeshReplica:
    """This rank's part of the network on a G x K mesh. Collective to make, with gloo joined.

    model: a ``models.vgg.Vgg``.  rate: of SGD with momentum 0.9.
    """

    def __init__(self, model, data: int, members: int, rate: float):
        torch.manual_seed(1)
        whole = TorchVgg(model)
        self.mesh = init_device_mesh("cpu", (data, members), mesh_dim_names=("data", "model"))
        self.features = nn.parallel.DistributedDataParallel(whole.features, gradient_as_bucket_view=True,
                                                            init_sync=False)
        self.connected = whole.connected
        for layer in self.connected:
            if isinstance(layer, nn.ReLU):
                layer.inplace = False  # DTensor refuses it
        if members > 1:
            parallelize_module(self.connected, self.mesh["model"], plan_of(self.connected))
        self.parameters = [*whole.features.parameters(), *self.connected.parameters()]
        self.optimizer = torch.optim.SGD(self.parameters, lr=rate, momentum=0.9)

    def step(self, images, targets) -> float:
        """Do a training step on (n, h, w, c) uint8 and (n,) NumPy arrays of this rank; return its loss. Collective."""
        x = torch.from_numpy(images).permute(0, 3, 1, 2).float() / 127.5 - 1
        logits = self.connected(self.features(x).flatten(1))
        loss = functional.cross_entropy(logits, torch.from_numpy(targets))
        self.optimizer.zero_grad()
        loss.backward()
        self.sum_up()
        self.optimizer.step()
        return loss.item()

    def sum_up(self):
        """Average the connected layers' gradients over those who hold the same part. Collective."""
        found = [p.grad for p in self.connected.parameters()]
        cut, whole = [g.to_local() for g in found if isinstance(g, DTensor)], [g for g in found if not
                                                                               isinstance(g, DTensor)]
        for grads, group, ranks in ((cut, self.mesh.get_group("data"), self.mesh.size(0)),
                                    (whole, None, self.mesh.size())):
            if not grads:
                continue
            flat = torch.cat([grad.reshape(-1) for grad in grads])
            if ranks > 1:
                distributed.all_reduce(flat, group=group)
            flat /= self.mesh.size()
            end = 0
            for grad in grads:
                grad.copy_(flat[end:end + grad.numel()].view_as(grad))
                end += grad.numel()


def plan_of(connected) -> dict:
    """Return how each linear layer is cut: column- and row-parallel in turn; one left over at the end is whole."""
    names = [name for name, layer in connected.named_children() if isinstance(layer, nn.Linear)]
    plan = {}
    for first, second in zip(names[::2], names[1::2]):
        plan[first] = ColwiseParallel(input_layouts=Shard(0))
        plan[second] = RowwiseParallel(output_layouts=Shard(0))
    return plan
