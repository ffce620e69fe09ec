"""Every score that Quantus 0.6.0 has too, on the same inputs, masks, noise and weights: make peers."""
