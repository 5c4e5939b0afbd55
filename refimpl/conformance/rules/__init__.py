"""What the numbers should be: computed from the inputs and the manifest, in plain NumPy, never from an adapter."""
