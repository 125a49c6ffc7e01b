"""The papers' tables and figures.

An experiment is made of cells: a method on a data set with a seed, trained and measured once, its result kept as JSON.
Tables and figures are laid out from the results. `catalogue.KINDS` lists the kinds of experiments.
"""
