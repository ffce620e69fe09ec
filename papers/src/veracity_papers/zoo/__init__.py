"""The papers' networks, many of them with a known symmetry, weights for them, and trainers."""
