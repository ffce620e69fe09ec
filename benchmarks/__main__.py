"""Run every benchmark: make bench."""

from benchmarks import examples, faithfulness, keys, orbits, robustness, stability, symmetry

if __name__ == "__main__":
    symmetry.main()
    examples.main()
    faithfulness.main()
    robustness.main()
    stability.main()
    orbits.main(samples=1000)
    keys.main()
