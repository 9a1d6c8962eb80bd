#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Lays the man pages, the shell completions and the licences of others next to the binary that makes
# them: dist/man, dist/completions, dist/NOTICES.
set -eu
rm -rf dist/man dist/completions dist/NOTICES
mkdir -p dist/completions
dist/tardy man --out dist/man
dist/tardy notices > dist/NOTICES
dist/tardy completions bash > dist/completions/tardy.bash
dist/tardy completions zsh > dist/completions/_tardy
dist/tardy completions fish > dist/completions/tardy.fish
