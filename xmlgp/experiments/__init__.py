"""The papers' tables and figures: cells that are trained once and kept, and what is laid out from them."""
