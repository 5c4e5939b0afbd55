"""A convolution, with a bias unless batch normalisation follows."""

import math

from kernels.conv import convolve, convolve_backward
from models.variable import Uniform, Variable


def conv_variables(name, kernel, inputs, outputs, dtype, bias=False):
    """Return the kernel, initial variance 2 / fan-in (He et al. 2015, eq. 10), and with ``bias`` the zero bias."""
    limit = math.sqrt(6 / (kernel * kernel * inputs))
    weight = Variable(f"{name}.weight", (kernel, kernel, inputs, outputs), initial=Uniform(limit), dtype=dtype)
    return [weight, Variable(f"{name}.bias", (outputs,), dtype=dtype, decays=False)] if bias else [weight]


def conv_forward(x, dense, name, stride=1):
    """Return y, (n, ceil(h / stride), ceil(w / stride), outputs): x convolved with ``name``.weight."""
    return convolve(x, dense[f"{name}.weight"], stride)


def conv_backward(grad, x, dense, name, gradients, stride=1, input_gradient=True):
    """Return the gradient of x (None unless ``input_gradient``); put the weight's gradient into ``gradients``."""
    weight = dense[f"{name}.weight"]
    grad_x, gradients[f"{name}.weight"] = convolve_backward(grad, x, weight, stride, input_gradient=input_gradient)
    return grad_x
