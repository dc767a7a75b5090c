#!/bin/sh
# What starts in every container of the image: Spark's executors by the argument it gives them, else the command given.
set -eu

# A JVM fails where nobody knows its user's name, and OpenShift gives user ids that no image can know beforehand.
# libnss-extrausers reads this file, too; it takes no ids of the system's, so nobody becomes root by it, and the group
# here, which no process gets by it, is not the real one.
if ! id -un >/dev/null 2>&1; then
  printf 'assigned:x:%s:65534:Penstock:%s:/bin/sh\n' "$(id -u)" "${PENSTOCK_HOME:-/tmp}" >/tmp/passwd
fi

if [ "${1:-}" = executor ]; then
  shift
  set -- python3 -m penstock.clusters.kubernetes.pod.executor "$@"
fi

# As process 1 it reaps what Python's workers leave behind; what the pod asks for is its child.
if [ $$ = 1 ] && command -v tini >/dev/null; then
  exec tini -- "$@"
fi
exec "$@"
