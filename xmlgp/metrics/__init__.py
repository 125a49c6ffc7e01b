"""Measures of rankings, of probabilities and of binary classification; `evaluation.evaluate` computes them."""
