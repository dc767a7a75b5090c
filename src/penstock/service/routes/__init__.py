"""The native API, one module per noun."""
