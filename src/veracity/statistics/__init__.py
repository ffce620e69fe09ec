"""From measured values to numbers with uncertainty: intervals, differences, trends and permutation nulls."""
