"""The language model on PyTorch's parameter server: torch.distributed.rpc, as in PyTorch's own tutorials.

It follows "Implementing batch RPC processing": one server has a lock and the optimizer; a trainer calls
``update_and_fetch``, which applies its gradients and returns new values in one round trip. It is faster than the
tutorial: no trainer waits for a batch of trainers, and only the rows of tables that the next step needs are sent, with
their numbers, instead of whole tensors. The model is that of ``torch_lm``. Rank 0 is the server, and also a trainer.
"""

import os
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import torch
from torch.distributed import rpc

from refimpl.experiments.bench.peers.torch_replica import Replica, Work
from refimpl.transport import Communicator

TABLES = {"embedding.weight": "inputs", "softmax_weight.weight": "outputs", "softmax_bias.weight": "outputs"}
"""Parameter that is sent by rows -> the name of a step's row numbers for it."""
SERVER, SECONDS = "worker0", 120.0


class RpcServer:
    """The parameters, their optimizer, and the lock that each call holds. It is on rank 0; trainers call it by RPC."""

    def __init__(self, work: Work):
        self.parameters = trained(work.make())
        self.optimizer = work.optimizer(self.parameters.values())
        self.lock = threading.Lock()

    def update_and_fetch(self, gradients: dict, wanted: dict | None) -> dict:
        """Do a step with a trainer's gradients, if any; return the dense values and the wanted rows, if any."""
        with self.lock, torch.no_grad():
            if gradients:
                for name, parameter in self.parameters.items():
                    parameter.grad = gradients[name] if name not in TABLES else torch.sparse_coo_tensor(
                        gradients[name][0][None], gradients[name][1], parameter.shape, is_coalesced=True)
                self.optimizer.step()
            return {name: parameter.detach().clone() if name not in TABLES else parameter[wanted[TABLES[name]]]
                    for name, parameter in self.parameters.items() if wanted is not None}


def trained(module) -> dict:
    """Return name -> parameter, for a module's parameters with gradients. Local."""
    return {name: p for name, p in module.named_parameters() if p.requires_grad}


_here: list[RpcServer] = []


def update_and_fetch(gradients, wanted):
    """Call this process's server. RPC runs this function."""
    return _here[-1].update_and_fetch(gradients, wanted)


def join_rpc(comm: Communicator):
    """Make all ranks workers of torch's RPC, over TCP on the machines' cards. Collective, once."""
    os.environ.setdefault("TP_SOCKET_IFNAME", "eth0" if len(comm.machines) > 1 else "lo")
    with tempfile.TemporaryDirectory(prefix="rpc") as own:
        meeting = Path(comm.share_text(own)[0])
        options = rpc.TensorPipeRpcBackendOptions(init_method=f"file://{meeting}/store", rpc_timeout=SECONDS,
                                                  _transports=["uv"], _channels=["basic"])
        rpc.init_rpc(f"worker{comm.rank}", rank=comm.rank, world_size=comm.size, rpc_backend_options=options)
        comm.meet("RPC")


def leave():
    """End RPC without telling the others, because their folder is gone. No more calls may follow. Collective."""
    rpc.shutdown(graceful=False)


class RpcTrainer:
    """A worker of the parameter server: fetches what a step needs, computes, and pushes with the next fetch.

    work: of ``torch_lm``.  data: the work's, a microbatch a rank.
    """

    def __init__(self, work: Work, data, comm: Communicator):
        self.comm, self.data, self.replica = comm, data, Replica(work, data, comm.rank)
        self.parameters = trained(self.replica.module)
        if comm.rank == 0:
            _here[:] = [RpcServer(work)]
        comm.meet("the parameter server")

    def train(self, steps: int) -> list[list]:
        """Train; return [worker, its step, seconds since the beginning, loss, examples] of its steps. Collective."""
        examples = self.data.examples(0) // self.data.microbatches
        self.comm.meet("the beginning of a training")
        begin, done, gradients = time.monotonic(), [], {}
        for step in range(steps):
            batch = self.data.microbatch(step, self.comm.rank)
            words, candidates, _ = batch.inputs
            wanted = {"inputs": _unique(words), "outputs": _unique(batch.targets, candidates)}
            self._take(rpc.rpc_sync(SERVER, update_and_fetch, (gradients, wanted)), wanted)
            loss, gradients = self._compute()
            done.append([self.comm.rank, step + 1, time.monotonic() - begin, loss, examples])
        rpc.rpc_sync(SERVER, update_and_fetch, (gradients, None))
        done[-1][2] = time.monotonic() - begin
        return done

    @torch.no_grad()
    def _take(self, values, wanted):
        for name, value in values.items():
            self.parameters[name][wanted[TABLES[name]] if name in TABLES else ...] = value

    def _compute(self):
        loss, gradients = self.replica.differentiate().item(), {}
        for name, parameter in self.parameters.items():
            gradient = parameter.grad.coalesce() if name in TABLES else parameter.grad
            gradients[name] = (gradient.indices()[0], gradient.values()) if name in TABLES else gradient
        return loss, gradients


def _unique(*arrays):
    return torch.from_numpy(np.unique(np.concatenate([np.asarray(array).ravel() for array in arrays])).astype(np.int64))
