"""The measures: precision, nDCG and their propensity-scored forms."""
