#!/bin/sh
# SPDX-License-Identifier: MIT OR Apache-2.0
# Lays the man pages and the shell completions beside the binary that makes them: dist/man, dist/completions.
set -eu
rm -rf dist/man dist/completions
mkdir -p dist/completions
dist/tardy man --out dist/man
dist/tardy completions bash > dist/completions/tardy.bash
dist/tardy completions zsh > dist/completions/_tardy
dist/tardy completions fish > dist/completions/tardy.fish
