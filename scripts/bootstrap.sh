#!/usr/bin/env bash
# Makes a machine that has git, make and Python 3.10+ ready: a JDK 17 and Maven by the system's package manager where
# there is none, the locked virtual environment, and the jars. Says what it does; does nothing twice.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '\033[1m==>\033[0m %s\n' "$*"; }
die() { printf '\nProblem: %s\nWhy: %s\nFix: %s\n' "$1" "$2" "$3" >&2; exit 1; }

java_version() { # the major version of a java command, empty where it does not run
  "$1" -version 2>&1 | sed -n 's/.*version "\([0-9]*\).*/\1/p' | head -n 1
}

has_jdk() {
  local home
  for home in "${PENSTOCK_JAVA_HOME:-}" "${JAVA_HOME:-}" /usr/lib/jvm/java-17-openjdk-* "$(java_home_on_path)"; do
    [ -n "$home" ] && [ -x "$home/bin/javac" ] && [ "$(java_version "$home/bin/java")" = 17 ] && return 0
  done
  return 1
}

java_home_on_path() {
  local java
  java=$(command -v java || true)
  [ -n "$java" ] && dirname "$(dirname "$(readlink -f "$java")")"
  return 0
}

apt_install() { # why, packages…
  local why=$1; shift
  local list="$*" sudo=""
  command -v apt-get >/dev/null || die "$why" "this system has no apt-get" "install $list by your system's package manager"
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || die "$why" "installing needs root, and sudo is missing" "as root: apt-get install $list"
    sudo="sudo"
  fi
  say "$why: installing $list"
  $sudo apt-get update -qq
  DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 10))' ||
  die "Python is too old" "$("$python" --version 2>&1) is before 3.10" "install Python 3.10 or newer and run PYTHON=python3.x make …"

has_jdk || apt_install "There is no JDK 17" openjdk-17-jdk-headless
command -v mvn >/dev/null || apt_install "There is no Maven" maven

if [ ! -x .venv/bin/pip ]; then
  "$python" -c 'import ensurepip' 2>/dev/null || apt_install "Python cannot make virtual environments" python3-venv
  say "Making the virtual environment .venv"
  "$python" -m venv --clear .venv
fi

# Python's packages are installed while Maven compiles. The output of pip waits until Maven is done.
install_packages() {
  cmp -s requirements/dev.txt .venv/requirements.installed && return 0
  .venv/bin/pip install -q --disable-pip-version-check --require-hashes -r requirements/dev.txt &&
    cp requirements/dev.txt .venv/requirements.installed
}

say "Building the jars, and installing the locked Python packages"
install_packages >.venv/pip.log 2>&1 &
packages=$!
trap 'kill "$packages" 2>/dev/null || true' EXIT
# No tests: `mvn verify` compiles and runs them.
mvn -f jvm/pom.xml -B -ntp -q package -Dmaven.test.skip=true
outcome=0
wait "$packages" || outcome=$?
trap - EXIT
cat .venv/pip.log
[ "$outcome" = 0 ] || die "The Python packages were not installed" "pip ended with $outcome; its messages are above" \
  "look at the network and pip's settings, then run make setup again"

if [ ! -x .venv/bin/penstock ] || [ pyproject.toml -nt .venv/pyproject.installed ]; then
  say "Installing penstock into .venv"
  .venv/bin/pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
  touch .venv/pyproject.installed
fi
say "Ready: .venv/bin/penstock"
