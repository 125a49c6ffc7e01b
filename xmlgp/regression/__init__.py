"""Gaussian-process regression on the labels, whose predictions MLGPF pools with its utilities.

Labels are real numbers with Gaussian noise: least-squares classification. Points with dense features have the
regression on the nearest training points, `xmlgp.regression.neighbours`. Features are scaled by relevances that the
latent functions of MLGPF have learned.

Source: C. E. Rasmussen, C. K. I. Williams, Gaussian Processes for Machine Learning, MIT Press 2006, section 6.5.
"""
