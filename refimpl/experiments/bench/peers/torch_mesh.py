"""The VGG network on PyTorch's two-dimensional DeviceMesh, as a PyTorch programmer would write it.

    features     DistributedDataParallel over all ranks: buckets are sent during the backward pass
    connected    ColwiseParallel and RowwiseParallel in turn over the mesh's "model" dimension, which saves every second
                 gather; inputs are sharded by rows, and gathered by the layer
    their sums   over the "data" dimension: one flat allreduce of a rank's parts, after the backward pass
    output       whole on every rank if the layers before it are cut in pairs; summed over all ranks

The collectives around the cut layers are DTensor's own, over gloo. Only the sum of their gradients is written by hand,
because DistributedDataParallel does not accept a module with both cut and whole parameters.
"""

from functools import partial

import torch
from torch import distributed, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

from refimpl.experiments.bench.peers.torch_replica import Replica, image_work
from refimpl.experiments.bench.peers.torch_vgg import TorchVgg


class MeshReplica(Replica):
    """This rank's part of a network on a G x K mesh, ``members`` being K. Collective, with gloo joined.

    model: a ``models.vgg.Vgg``.  data: a microbatch a rank.  rate: of SGD with momentum 0.9.
    """

    def __init__(self, model, data, rank: int, members: int, rate: float):
        self.mesh = init_device_mesh("cpu", (data.microbatches // members, members), mesh_dim_names=("data", "model"))
        super().__init__(image_work(partial(TorchVgg, model), rate), data, rank)

    def spread_out(self):
        network = self.module
        network.features = nn.parallel.DistributedDataParallel(network.features, gradient_as_bucket_view=True,
                                                               init_sync=False)
        for layer in network.connected:
            if isinstance(layer, nn.ReLU):
                layer.inplace = False  # DTensor refuses it
        if self.mesh.size(1) > 1:
            parallelize_module(network.connected, self.mesh["model"], plan_of(network.connected))
        return network

    def finish_gradients(self):
        """Average the connected layers' gradients over the ranks with the same part. Collective."""
        found = [p.grad for p in self.module.connected.parameters()]
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
