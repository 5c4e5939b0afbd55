"""Parts of tables: rows as variables, who owns partitions and how even that is, the search for how many there are."""
