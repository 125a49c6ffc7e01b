"""A run: preprocessing and training into a model folder, interrupted and resumed."""
