"""A user's model and data behind their own protocols: every answer is checked, and an error names what is wrong."""
