"""Damaged files of every kind that xmlgp reads from strangers: how they are made, and what must hold for each."""
