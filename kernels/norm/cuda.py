"""``definition`` on a GPU: the same operations on each element; only the order of the float64 sums differs.

A channel's sum takes two launches: ``PARTS`` threads add up places PARTS apart, then their sums are folded.
"""

import math

import numpy as np

from kernels.arrays import array_module
from kernels.cuda import each_element, each_row, scalar

PARTS, LANES = 4096, 256


def channel_statistics(x):
    xp, channels = array_module(x), x.shape[3]
    x = xp.ascontiguousarray(x)
    places, parts = x.size // channels, min(PARTS, x.size // channels)
    mean, variance = xp.empty(channels, x.dtype), xp.empty(channels, x.dtype)
    partial = xp.empty((parts, channels))
    add_places(parts, channels, parts, places, channels, x, partial)
    mean_of(channels, LANES, parts, places, channels, partial, mean)
    add_squares(parts, channels, parts, places, channels, x, mean, partial)
    mean_of(channels, LANES, parts, places, channels, partial, variance)
    return mean, variance


def normalize(x, mean, variance, scale, offset, epsilon, relu=False):
    xp, channels = array_module(x), x.shape[3]
    x, one = xp.ascontiguousarray(x), scalar(x, 1)
    y = xp.empty(x.shape, x.dtype)
    normalized(x.size // channels, channels, channels, int(relu), one, one - one, scalar(x, epsilon), x, mean, variance,
               scale, offset, y)
    return y


def normalize_backward(grad, x, y, mean, variance, scale, epsilon, relu=False):
    xp, channels = array_module(x), x.shape[3]
    grad, x = xp.ascontiguousarray(grad), xp.ascontiguousarray(x)
    y = xp.ascontiguousarray(y) if relu else x
    places, parts, one = x.size // channels, min(PARTS, x.size // channels), scalar(x, 1)
    sums, total = xp.empty((parts, 2, channels)), xp.empty((2, channels), x.dtype)
    add_gradients(parts, channels, parts, places, channels, int(relu), one - one, grad, x, y, mean, sums)
    mean_of(2 * channels, LANES, parts, 1, 2 * channels, sums, total)
    grad_x, grad_scale = xp.empty(x.shape, x.dtype), xp.empty(channels, x.dtype)
    gradient_of_places(places, channels, channels, int(relu), one, one - one, scalar(x, epsilon), scalar(x, places),
                       grad, x, y, mean, variance, scale, total, grad_x, grad_scale)
    return grad_x, grad_scale, total[0]


@each_element
def add_places(part, channel, parts, places, channels, x, partial):
    """Write the sum of a channel over places part, part + parts, ..."""
    total = np.float64(0)
    for place in range(part, places, parts):
        total += np.float64(x[place * channels + channel])
    partial[part * channels + channel] = total


@each_element
def add_squares(part, channel, parts, places, channels, x, mean, partial):
    """Write the sum of squared deviations of a channel over places part, part + parts, ..."""
    total = np.float64(0)
    for place in range(part, places, parts):
        deviation = x[place * channels + channel] - mean[channel]
        total += np.float64(deviation * deviation)
    partial[part * channels + channel] = total


def note_mean(channel, total, parts, places, channels, partial, mean):
    """Write the sum over places, divided by their number."""
    mean[channel] = total / places


@each_row(note_mean)
def mean_of(channel, lane, lanes, parts, places, channels, partial, mean):
    """Return the sum of a lane's parts."""
    total = np.float64(0)
    for part in range(lane, parts, lanes):
        total += partial[part * channels + channel]
    return total


@each_element
def normalized(place, channel, channels, relu, one, zero, epsilon, x, mean, variance, scale, offset, y):
    """Write (x - mean) * (scale / sqrt(variance + epsilon)) + offset, at least 0 with ``relu``."""
    factor = scale[channel] * (one / math.sqrt(variance[channel] + epsilon))
    value = (x[place * channels + channel] - mean[channel]) * factor + offset[channel]
    y[place * channels + channel] = zero if relu != 0 and value < zero else value


@each_element
def add_gradients(part, channel, parts, places, channels, relu, zero, grad, x, y, mean, sums):
    """Write sum g and sum g (x - mean) of a channel over places part, part + parts, ...; g: see ``definition``."""
    offset_sum, scale_sum = np.float64(0), np.float64(0)
    for place in range(part, places, parts):
        at = place * channels + channel
        g = grad[at] if relu == 0 or y[at] > zero else zero
        offset_sum += np.float64(g)
        scale_sum += np.float64(g * (x[at] - mean[channel]))
    sums[2 * part * channels + channel] = offset_sum
    sums[(2 * part + 1) * channels + channel] = scale_sum


@each_element
def gradient_of_places(place, channel, channels, relu, one, zero, epsilon, places, grad, x, y, mean, variance, scale,
                       total, grad_x, grad_scale):
    """Write the gradient of an element, and once for all places the gradient of the channel's scale."""
    inverse = one / math.sqrt(variance[channel] + epsilon)
    offset_gradient, scale_gradient = total[channel], inverse * total[channels + channel]
    if place == 0:
        grad_scale[channel] = scale_gradient
    at = place * channels + channel
    g = grad[at] if relu == 0 or y[at] > zero else zero
    grad_x[at] = (scale[channel] * inverse) * (g - offset_gradient / places
                                               - (x[at] - mean[channel]) * (inverse * scale_gradient / places))
