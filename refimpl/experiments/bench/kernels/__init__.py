"""Array functions raced against NumPy and PyTorch, one thread each."""
