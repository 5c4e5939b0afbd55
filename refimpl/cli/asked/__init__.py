"""The options that commands share, the values that they take, and the errors for wrong ones."""
