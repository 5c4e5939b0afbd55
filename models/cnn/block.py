"""The basic residual block (He et al. 2016, figure 2 and section 3.3).

    y = relu(norm2(conv2(relu(norm1(conv1(x))))) + shortcut(x))

conv1 is 3x3 with the block's stride, conv2 3x3. The shortcut is x itself, or norm(conv 1x1 with the stride) where
the shape changes (their option B).
"""

from kernels.relu import add_relu
from models.cnn.batch_norm import norm_backward, norm_forward, norm_variables
from models.protocol import unchanged
from models.vision.convolution import conv_backward, conv_forward, conv_variables


def projects(dense, name):
    """Return True if the block's shortcut is a projection."""
    return f"{name}.shortcut.weight" in dense


def block_variables(name, inputs, outputs, stride, dtype):
    """Return the variables of a block that maps ``inputs`` channels to ``outputs``."""
    variables = [
        *conv_variables(f"{name}.conv1", 3, inputs, outputs, dtype),
        *norm_variables(f"{name}.norm1", outputs, dtype),
        *conv_variables(f"{name}.conv2", 3, outputs, outputs, dtype),
        *norm_variables(f"{name}.norm2", outputs, dtype),
    ]
    if stride > 1 or inputs != outputs:
        variables += conv_variables(f"{name}.shortcut", 1, inputs, outputs, dtype)
        variables += norm_variables(f"{name}.shortcut_norm", outputs, dtype)
    return variables


def block_forward(x, dense, name, stride, running=False, half=unchanged):
    """Return (y, saved) of a block: x (n, h, w, inputs), y (n, ceil(h / stride), ceil(w / stride), outputs).

    running: see ``norm_forward``.  half: of ``models.protocol``.
    """
    def conv_norm(x, conv, norm, stride=1, relu=False):
        return norm_forward(conv_forward(x, dense, f"{name}.{conv}", stride), dense, f"{name}.{norm}", relu, running)

    hidden, norm1 = conv_norm(x, "conv1", "norm1", stride, relu=True)
    hidden = half(hidden)
    inner, norm2 = conv_norm(hidden, "conv2", "norm2")
    shortcut, shortcut_norm = conv_norm(x, "shortcut", "shortcut_norm", stride) if projects(dense, name) else (x, None)
    y = half(add_relu(inner, shortcut))
    return y, (x, hidden, y, norm1, norm2, shortcut_norm)


def block_norms(saved, name) -> dict:
    """Return name -> the values that each normalisation of a block saved."""
    found = {f"{name}.norm1": saved[3], f"{name}.norm2": saved[4]}
    return found if saved[5] is None else found | {f"{name}.shortcut_norm": saved[5]}


def block_backward(grad, saved, dense, name, stride, gradients, shares, half=unchanged):
    """Return the gradient of x; put the gradients of the variables into ``gradients``."""
    x, hidden, y, norm1, norm2, shortcut_norm = saved
    grad_sum = grad * (y > 0)
    grad_inner = norm_backward(grad_sum, norm2, dense, f"{name}.norm2", gradients, shares)
    grad_hidden = half(conv_backward(grad_inner, hidden, dense, f"{name}.conv2", gradients))
    grad_inner = norm_backward(grad_hidden, norm1, dense, f"{name}.norm1", gradients, shares, relu=True)
    grad_x = conv_backward(grad_inner, x, dense, f"{name}.conv1", gradients, stride)
    if projects(dense, name):
        grad_sum = norm_backward(grad_sum, shortcut_norm, dense, f"{name}.shortcut_norm", gradients, shares)
        grad_sum = conv_backward(grad_sum, x, dense, f"{name}.shortcut", gradients, stride)
    return half(grad_x + grad_sum)
