"""One index of the training points: search, and what follows from the nearest points."""
