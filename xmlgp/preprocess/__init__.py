"""What is computed once before training: feature weighting, the subspace basis, the k-means start."""
