"""Figures of training and of calibration, drawn with Matplotlib (the extra `plot`)."""
