"""Nearest neighbors by inner product."""
