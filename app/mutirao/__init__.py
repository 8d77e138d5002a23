"""Mutirão: a distributed task scheduler for a handful of edge machines."""

__version__ = "0.1.0"
