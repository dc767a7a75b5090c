"""A client of the service, for Python programs and for the command line."""
