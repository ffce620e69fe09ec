"""What a perturbation does to a block of samples: to its inputs, to the weights, to the training folds, or in a search."""
