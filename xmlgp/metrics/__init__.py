"""Measures of rankings, probabilities, assigned labels and binary data, which `xmlgp.api.evaluate` puts together."""
