"""Partitions of tables: their owners, how even the owners' loads are, and the search for the number of partitions."""
