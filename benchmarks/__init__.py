"""Measurements of xmlgp beside other tools, and the tables and figures of the papers."""
