"""Architectures with a known symmetry, and small weights for them."""
