"""Configuration of other engines and libraries for a lake, and a lake as Kubernetes objects."""
