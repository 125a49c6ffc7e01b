"""The mathematics of MLGPF: pure functions of arrays, each with its manual gradient beside it."""
