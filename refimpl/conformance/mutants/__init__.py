"""Is the suite any good? Classic bugs planted one at a time, and checkers made weak: all must be seen, and named.

Only what is below this package ever runs a mutant; no adapter that ships knows of it.
"""
