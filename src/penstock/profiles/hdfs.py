"""The profiles on a lake that is an HDFS: without what is about S3.

Nothing takes its place. The commit protocol, the reader and the block sizes are then Spark's and Hadoop's own, since
the baseline is HDFS as it is used, not as Penstock would have it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from penstock.profiles import store
from penstock.profiles.setting import Layer


def without_s3(layers: Iterable[Layer]) -> tuple[Layer, ...]:
    """The same layers without the one of the store, and without S3A's settings in any other."""
    return tuple(
        replace(layer, settings=tuple(one for one in layer.settings if not one.key.startswith(store.S3A)))
        for layer in layers
        if layer is not store.LAYER
    )
