"""Damaged files of every kind that xmlgp reads: how they are made, and what must hold for each."""
