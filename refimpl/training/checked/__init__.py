"""A user's model and data behind their own protocols: every answer is looked at, and who is wrong is named."""
