"""A run: preprocessing, training and learning on into a model folder, interrupted and resumed."""
