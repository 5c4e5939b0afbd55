"""A ``torch.nn.Module`` as a model: PyTorch computes loss and gradients; refimpl exchanges, clips and updates.

    model = TorchModel(module, loss)              loss(module, batch) -> the sum of the losses of batch's examples
    data = TorchData(dataset, microbatches=8, size=32)
    result = train(model, data, options=Options(optimizer="adam", learning_rate=0.001), output="runs/mine")
    module                                        now has the learned parameters, on every rank
    model.load("runs/mine")                       loads them into the module of another process

``Trainer`` is for a loop of your own. ``docs/torch.md`` lists what is refused, and why. Docstrings call a function
*collective* if all ranks must call it, and *local* if a rank may call it alone.
"""

from models.frameworks.installed import require_installed

require_installed("torch", "PyTorch")

from refimpl.torch.data import TorchData, TorchStream
from refimpl.torch.model import TorchModel
from refimpl.torch.tensors import Microbatch
from refimpl.torch.trainer import TorchTrainer
from refimpl.torch.variables import Normal

Trainer = TorchTrainer

__all__ = ["Microbatch", "Normal", "TorchData", "TorchModel", "TorchStream", "TorchTrainer", "Trainer"]
