"""Measures of rankings, of probabilities and of binary classification; `evaluation.evaluate_scores` computes them."""
