"""The kinds of trials: what is drawn, and how it is done."""
