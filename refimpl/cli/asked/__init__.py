"""What a command line may ask: options, the values that they take, and the errors for wrong ones."""
