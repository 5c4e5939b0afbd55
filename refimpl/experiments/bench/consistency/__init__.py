"""Training without barriers beside the synchronous server, beside itself without a record, and beside PyTorch."""
