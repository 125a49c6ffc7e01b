"""Files and scores that go between xmlgp and other tools, for `make interchange`."""
