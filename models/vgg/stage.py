"""A stage of a VGG network: 3x3 convolutions with bias and relu, then 2x2 max pooling (Simonyan and Zisserman 2015).

    y = relu(conv(x) + bias), once or more, then the maximum of every 2x2 window
"""

from kernels.pool import max_pool, max_pool_backward
from kernels.relu import add_relu, relu_backward
from models.layer import Layer
from models.vision.convolution import conv_backward, conv_forward


def stages_of(image_shape, stages, width) -> list[list[Layer]]:
    """Return the convolutions of each stage. Local. Raises ValueError for images that become too small to pool.

    stages: convolutions in each.  width: outputs in the first stage; each further stage doubles them, up to 8 times.
    """
    height, along, inputs = image_shape
    made = []
    for s, count in enumerate(stages):
        if min(height, along) < 2:
            side = 2**len(stages)
            raise ValueError(f"image_shape={tuple(image_shape)}: after {s} stages images are {height} x {along}, too "
                             f"small to pool; give at most {s} stages, or images of {side} x {side}")
        outputs, stage = width * min(2**s, 8), []
        for number in range(count):
            stage.append(Layer(f"stage{s}.conv{number}", inputs, outputs, 3, (height, along), (height, along)))
            inputs = outputs
        made.append(stage)
        height, along = height // 2, along // 2
    return made


def stage_forward(x, stage, dense):
    """Return (y, saved) of a stage: x (n, h, w, inputs), y (n, h // 2, w // 2, outputs). Local."""
    seen = [x]
    for layer in stage:
        seen.append(add_relu(conv_forward(seen[-1], dense, layer.name), dense[f"{layer.name}.bias"]))
    y = max_pool(seen[-1])
    return y, (seen, y)


def stage_backward(grad, saved, stage, dense, gradients, input_gradient=True):
    """Return the gradient of x (None unless ``input_gradient``); put the variables' gradients into ``gradients``."""
    seen, pooled = saved
    for number, layer in reversed(list(enumerate(stage))):
        last = number + 1 == len(stage)  # relu gives the same after pooling, with a quarter of the work
        grad, gradients[f"{layer.name}.bias"] = relu_backward(grad, pooled if last else seen[number + 1])
        if last:
            grad = max_pool_backward(grad, seen[-1])
        grad = conv_backward(grad, seen[number], dense, layer.name, gradients,
                             input_gradient=input_gradient or number > 0)
    return grad
