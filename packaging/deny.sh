#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Has cargo-deny check the crates against deny.toml where it is installed: by the user, or by `packaging/deny.sh install` into
# $TARDY_CACHE/deny. `make lint` does not install it: it brings as many crates as tardy has. The golden layer checks licences, sources and
# doubled crates without it; only advisories need it, and their database.
set -eu
cd "$(dirname "$0")/.."
: "${TARDY_CACHE:=$PWD/.cache}"
version=0.20.2

if [ "${1:-}" = install ]; then
  # Unoptimised: it runs for seconds and is compiled for minutes.
  CARGO_PROFILE_RELEASE_OPT_LEVEL=0 CARGO_PROFILE_RELEASE_LTO=off CARGO_TARGET_DIR="$TARDY_CACHE/deny-target" \
    cargo install --quiet --locked --force --root "$TARDY_CACHE/deny" "cargo-deny@$version"
  rm -rf "$TARDY_CACHE/deny-target"
  exit
fi

deny="$TARDY_CACHE/deny/bin/cargo-deny"
[ -x "$deny" ] || deny=$(command -v cargo-deny || true)
if [ -z "$deny" ]; then
  echo "deny: cargo-deny is not installed (packaging/deny.sh install), so no advisories are looked up; make test checks licences and sources" >&2
  exit 0
fi
"$deny" --locked check licenses bans sources
if "$deny" --locked fetch db >/dev/null 2>&1; then
  "$deny" --locked check advisories
else
  echo "deny: the database of advisories cannot be reached, so none are looked up" >&2
fi
