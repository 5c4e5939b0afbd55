"""Texts as word numbers."""
