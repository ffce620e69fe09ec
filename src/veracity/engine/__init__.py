"""Plan, run, store: the one loop that every score shares."""
