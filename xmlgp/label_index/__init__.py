"""An index of labels by their loadings and bias, by which labels of high utility are found without all products."""
