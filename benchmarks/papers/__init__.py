"""The papers' tables and figures: `python -m benchmarks.papers NAMES`, from a checkout.

An experiment is made of cells: a method on a data set with a seed, trained and measured once, its result kept as JSON.
Tables and figures are laid out from the results. `catalogue.KINDS` lists the kinds of experiments.
"""
