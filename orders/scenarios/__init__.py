"""Scenarios: a protocol case as a file, read strictly (`format`) and run against the real parts (`runner`)."""
