"""Adapters that ship: the plain reference (NumPy, any semantics), and our own implementation."""
