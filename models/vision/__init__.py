"""Shared parts of models of images: their input, convolution layers, cross entropy."""
