"""Scoring new points with a trained model, and the scores file."""
