"""Products and factorisations of dense and sparse matrices, each on all cores."""
