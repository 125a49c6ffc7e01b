"""Exact Gaussian-process regression on the labels, whose predictions MLGPF pools with its utilities.

This package has the kernel, the fit by conjugate gradients, the arrays in a model, and the logarithmic pool.
`xmlgp.mlgpf.held_out` decides whether a model has a regression.

Labels are real numbers with Gaussian noise: least-squares classification. All labels share the kernel and the noise, so
there is one linear system. The centred label matrix is replaced by its best approximation of rank P, so there are P
right-hand sides. There are no inducing inputs. Features may be scaled by relevances that the latent functions of MLGPF
have learned, because the regression would need a solution for every step of learning them. Points with
dense features also have the regression on the nearest training points, `xmlgp.regression.neighbours`.

Source: C. E. Rasmussen, C. K. I. Williams, Gaussian Processes for Machine Learning, MIT Press 2006, section 6.5.
"""
