#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Installs what is missing on Debian 12 for the purposes named: `build` (and run), `test`, `bench`,
# `soak`; none named means `build`. Needs root or sudo only if something is missing.
set -eu
[ $# -gt 0 ] || set -- build

# Where Debian has the libraries of this machine's processor.
libraries=/usr/lib/$(uname -m)-linux-gnu

# purpose package:what it is needed for (a program, or a file that it brings)
NEEDED="
build gcc:/usr/bin/gcc
build libc6-dev:$libraries/libc.a
build make:/usr/bin/make
build clang:/usr/bin/clang
build pkg-config:/usr/bin/pkg-config
build libelf-dev:$libraries/libelf.a
build zlib1g-dev:$libraries/libz.a
build iproute2:/usr/sbin/ip
build ethtool:/usr/sbin/ethtool
build util-linux:/usr/bin/taskset
build qemu-system-x86:/usr/bin/qemu-system-x86_64
build npm:/usr/bin/npm
test file:/usr/bin/file
test tshark:/usr/bin/tshark
test iputils-ping:/usr/bin/ping
test python3:/usr/bin/python3
test python3-venv:/usr/lib/python3.11/ensurepip/__init__.py
bench python3:/usr/bin/python3
bench python3-venv:/usr/lib/python3.11/ensurepip/__init__.py
bench sockperf:/usr/bin/sockperf
bench iperf3:/usr/bin/iperf3
bench rt-tests:/usr/bin/cyclictest
bench linux-perf:/usr/bin/perf
soak g++:/usr/bin/g++
soak openjdk-17-jre-headless:/usr/bin/java
test chromium:/usr/bin/chromium
test openvswitch-switch:/usr/bin/ovs-vsctl
test openssh-client:/usr/bin/ssh
test dropbear-bin:/usr/sbin/dropbear
test linuxptp:/usr/sbin/ptp4l
test libnss-wrapper:$libraries/libnss_wrapper.so
"

missing=""
for purpose in "$@"; do
  for pair in $(echo "$NEEDED" | sed -n "s/^$purpose //p"); do
    package=${pair%%:*}
    path=${pair#*:}
    [ -e "$path" ] || [ -e "/bin/${path##*/}" ] || [ -e "/sbin/${path##*/}" ] || missing="$missing $package"
  done
done

if [ -n "$missing" ]; then
  echo "setup: installing$missing" >&2
  as_root=""
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || { echo "setup:$missing missing: run as root, or install sudo" >&2; exit 3; }
    as_root="sudo"
  fi
  $as_root apt-get update -qq
  # shellcheck disable=SC2086
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >&2
fi

# Rust: Debian 12's own is too old; rustup's is used as it is.
[ -x "$(command -v cargo || true)" ] || [ ! -x "$HOME/.cargo/bin/cargo" ] || PATH="$HOME/.cargo/bin:$PATH"
wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
if ! command -v cargo >/dev/null; then
  echo "setup: cargo is missing: install Rust $wanted or newer with rustup, then run make again" >&2
  exit 3
fi
have=$(rustc --version | cut -d' ' -f2)
oldest=$(printf '%s\n%s\n' "$wanted.0" "$have" | sort -V | head -n 1)
if [ "$oldest" != "$wanted.0" ]; then
  # Not done unasked: other programs of the user's are built with it too.
  echo "setup: Rust $wanted or newer is needed, this is $have: run \`rustup update stable\`, then run make again" >&2
  exit 3
fi

# `make lint` needs these two; rustup's minimal profile has neither.
for component in clippy rustfmt; do
  case $component in clippy) tool=cargo-clippy ;; *) tool=rustfmt ;; esac
  command -v $tool >/dev/null && $tool --version >/dev/null 2>&1 && continue
  command -v rustup >/dev/null && rustup component add $component >&2 ||
    echo "setup: $component is missing: make lint will not run" >&2
done

# Tests let other people's tools read what tardy writes, benchmarks let them compute the same:
# Python's packages, in an environment of their own. Without them those tests are skipped and
# counted.
case " $* " in *" test "* | *" bench "*)
  venv="${TARDY_CACHE:-$PWD/.cache}/venv"
  if ! cmp -s packaging/requirements.txt "$venv/requirements.txt"; then
    echo "setup: fetching Python packages into $venv" >&2
    rm -rf "$venv"
    # The copy comes last: it says that all of them are there.
    if /usr/bin/python3 -m venv "$venv" >&2 &&
      "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r packaging/requirements.txt >&2; then
      cp packaging/requirements.txt "$venv/"
    else
      echo "setup: the Python packages cannot be fetched: tests that need them will be skipped" >&2
    fi
  fi ;;
esac

# Grafana's own types, against which the tests check the dashboard.
case " $* " in *" test "*)
  types="${TARDY_CACHE:-$PWD/.cache}/grafana"
  if ! cmp -s integrations/grafana/package-lock.json "$types/package-lock.json" || [ ! -d "$types/node_modules" ]; then
    mkdir -p "$types"
    cp integrations/grafana/package.json integrations/grafana/package-lock.json "$types/"
    (cd "$types" && npm_config_cache="${types%/*}/npm" \
      npm ci --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error >&2) || {
      rm -rf "$types"
      echo "setup: Grafana's types cannot be fetched: the test that needs them will be skipped" >&2
    }
  fi ;;
esac

# Spark, which also wants Java, is for the soak alone.
case " $* " in *" soak "*)
  venv="${TARDY_CACHE:-$PWD/.cache}/venv"
  if [ -x "$venv/bin/pip" ] && ! cmp -s packaging/requirements-soak.txt "$venv/requirements-soak.txt"; then
    echo "setup: fetching Spark into $venv" >&2
    if "$venv/bin/pip" install --quiet --disable-pip-version-check --require-hashes -r packaging/requirements-soak.txt >&2; then
      cp packaging/requirements-soak.txt "$venv/"
    else
      echo "setup: Spark cannot be fetched: its test will be skipped" >&2
    fi
  fi ;;
esac
