"""The check of a store: measurements of it, and what they mean."""
