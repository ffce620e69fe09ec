"""Cross-training: one model per fold of the data, trained without that fold, and audited on it."""
