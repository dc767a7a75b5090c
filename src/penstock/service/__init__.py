"""The engine as a service: a REST API, its dialects, and the console."""
