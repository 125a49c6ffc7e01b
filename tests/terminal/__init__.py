"""Commands on pseudo-terminals."""
