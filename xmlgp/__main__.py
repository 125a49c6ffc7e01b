"""Runs the command line as `python -m xmlgp`."""

from xmlgp.cli import main

if __name__ == "__main__":
    main(prog_name="xmlgp")
