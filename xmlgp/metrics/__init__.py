"""The measures: of rankings, of probabilities and of how certain a model is."""
