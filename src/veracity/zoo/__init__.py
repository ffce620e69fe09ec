"""Small networks, many of them with a known symmetry, and weights for them."""
