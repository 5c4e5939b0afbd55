"""Kernel functions of support vector machines, and loops over the errors of a rank's samples."""
