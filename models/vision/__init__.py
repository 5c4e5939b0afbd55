"""What models of images share: their input, convolution layers, cross entropy."""
