"""What a command line may ask: options, the texts that they take, and what is said of a wrong one."""
