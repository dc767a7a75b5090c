"""An object-store load generator: stages of PUT, GET, range GET, LIST and DELETE, timed and verified."""
