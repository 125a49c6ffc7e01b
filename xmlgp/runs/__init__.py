"""A run: preprocessing, training and learning into a model folder, interrupted and resumed."""
