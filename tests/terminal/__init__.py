"""Commands on a pseudo-terminal: what only a terminal shows."""
