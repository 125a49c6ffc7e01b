"""Utilities for any program: parallel work, interrupts, atomic files, progress, untrusted text made fit to show."""
