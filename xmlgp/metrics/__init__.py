"""Measures of rankings, of probabilities and of binary classification."""
