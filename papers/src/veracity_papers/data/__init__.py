"""Data sets: bundled ones, and public ones read from a folder."""
