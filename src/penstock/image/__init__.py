"""The container image, built without a container engine: `base`, `contents`, `oci` (documents, layers), `build`."""
