"""The types and protocols that all other packages use."""
