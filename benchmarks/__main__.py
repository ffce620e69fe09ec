"""Run every benchmark: make bench."""

from benchmarks import symmetry

if __name__ == "__main__":
    symmetry.main()
