"""Kernel functions of support vector machines, and passes over the errors of a rank's samples."""
