#!/bin/sh
# The entry point of every container of the image: an executor for Spark's argument `executor`, else the given command.
set -eu

# A JVM fails where its user has no name, and OpenShift assigns user ids that no image can know beforehand.
# libnss-extrausers reads this file too. It ignores ids of the system, so this grants no process the rights of root;
# the group here is not the real one, and grants no process anything either.
if ! id -un >/dev/null 2>&1; then
  printf 'assigned:x:%s:65534:Penstock:%s:/bin/sh\n' "$(id -u)" "${PENSTOCK_HOME:-/tmp}" >/tmp/passwd
fi

if [ "${1:-}" = executor ]; then
  shift
  set -- python3 -m penstock.clusters.kubernetes.pod.executor "$@"
fi

# As process 1, tini reaps the orphans of Python's workers; the container's command is its child.
if [ $$ = 1 ] && command -v tini >/dev/null; then
  exec tini -- "$@"
fi
exec "$@"
