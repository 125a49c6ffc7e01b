"""Parallel products and factorisations of dense and sparse matrices, and the compiler of loops."""
