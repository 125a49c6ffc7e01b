"""Compute blocks of work on a Dask cluster."""
