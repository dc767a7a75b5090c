#!/usr/bin/env bash
# Installs Debian packages whose commands are missing: install_packages.sh COMMAND:PACKAGE …
# As another user than root it says what is missing and goes on: the tests that need it then say so.
set -euo pipefail

missing=()
for pair in "$@"; do
  command -v "${pair%%:*}" >/dev/null || missing+=("${pair##*:}")
done
[ ${#missing[@]} -gt 0 ] || exit 0
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  echo "Not installed: ${missing[*]}. Install them by your system's package manager; tests that need them are skipped." >&2
  exit 0
fi
printf '\033[1m==>\033[0m Installing %s\n' "${missing[*]}"
# Another installation may be under way.
apt-get update -qq -o DPkg::Lock::Timeout=300
DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=300 \
  "${missing[@]}" >/dev/null
