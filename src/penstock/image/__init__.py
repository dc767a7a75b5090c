"""The container image, built without a container engine.

`base` reads or creates the base, `contents` selects the files and their permissions, `oci` describes the image's
documents, and `build` writes the archive.
"""
