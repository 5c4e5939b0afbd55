"""How one variable is kept and exchanged: by owners, by replicas, by both; and the bytes of each way."""
