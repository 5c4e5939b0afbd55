"""The guides, and the program that makes a website of them (``docs.website``)."""
