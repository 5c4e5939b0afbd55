"""Partitions of tables: their owners, the balance of the owners' loads, and the search for the number of partitions."""
