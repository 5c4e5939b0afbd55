"""Is the suite any good? Classic bugs planted one at a time, and checkers made weak: all must be seen, and named.

No adapter that ships knows of a mutant.  ``make test-mutants`` runs all.
"""
