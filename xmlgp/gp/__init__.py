"""The mathematics of MLGPF: pure functions of arrays, each with its manual gradient beside it.

Every differentiable piece has the same two verbs. `forward` returns values and a tape, `backward` takes the
tape and the gradients of the values and returns the gradients of what went in. The bound (`bound.py`) is a
list of forward calls read downwards and a list of backward calls read upwards:

    inner products -> kernel -> posterior -> factors -> expectations
"""
