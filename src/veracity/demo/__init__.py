"""The demo: scikit-learn's digits, three small networks, and an audit of them that runs with this package alone."""
