"""PyTorch's mesh trains one and the same network on every mesh; one that forgets to sum over the groups does not."""

import json

import pytest

from refimpl.transport.launch import launch

SCRIPT = """
import json
import numpy as np
from models.data import Examples
from models.vgg import Vgg
from refimpl.experiments.bench.peers import join_gloo
from refimpl.transport import Communicator
comm = Communicator.of()
join_gloo(comm)
from refimpl.experiments.bench.peers.torch_mesh import MeshReplica
net = Vgg((8, 8, 3), 10, stages=(1,), width=4, connected=(16, 8), blocks=4, keep=1.0)
rng, found, count = np.random.default_rng(0), {}, 4 * comm.size
images, targets = rng.integers(0, 256, (count, 8, 8, 3), np.uint8), rng.integers(0, 10, count)
data = Examples(images, targets, comm.size, 4, shuffle=False)
for name, members in (("2x1", 1), ("1x2", 2), ("forgets", 1)):
    peer = MeshReplica(net, data, comm.rank, members, 0.05)
    if name == "forgets":
        peer.finish_gradients = lambda: None
    mine = np.array([peer.step() for _ in range(4)])
    found[name] = comm.share(mine, "bench").mean(axis=0).tolist()
if comm.rank == 0:
    print(json.dumps(found))
"""


@pytest.mark.thorough
def test_the_peer_trains_one_network_on_every_mesh():
    pytest.importorskip("torch")
    job = launch(2, ["-c", SCRIPT], timeout=200, capture=True)
    assert job.returncode == 0, job.stderr
    found = json.loads(job.stdout.splitlines()[-1])
    assert found["1x2"] == pytest.approx(found["2x1"], rel=1e-5)
    assert found["forgets"][0] == pytest.approx(found["2x1"][0], rel=1e-5)
    assert found["forgets"][-1] != pytest.approx(found["2x1"][-1], rel=1e-4)
