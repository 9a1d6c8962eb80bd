# SPDX-License-Identifier: MIT OR Apache-2.0
# make demo and make test are all one needs; both install what is missing and build first.

export TARDY_CACHE ?= $(CURDIR)/.cache
export PATH := $(PATH):$(HOME)/.cargo/bin
export CARGO_TARGET_DIR := $(TARDY_CACHE)/target
PAGE := crates/report/page
# Of this machine's processor; .cargo/config.toml has the flags and the folders of libraries of
# each.
export CARGO_BUILD_TARGET ?= $(shell uname -m)-unknown-linux-gnu
RELEASE := $(CARGO_TARGET_DIR)/$(CARGO_BUILD_TARGET)/release
# Tests and runs make network namespaces: as root, or by sudo.
AS_ROOT := $(if $(filter 0,$(shell id -u)),,sudo --preserve-env=TARDY_CACHE,TARDY_SKIPS)

.PHONY: help setup setup-test setup-bench setup-soak page build build-all demo test bench soak book lint clean

help:
	@echo 'make demo   build, then the main job: a stream between two stations, measured and judged'
	@echo 'make test   build, then all tests; the first time it fetches a kernel for guests'
	@echo 'make bench  build, then compare tardy with its peers; writes docs/performance.md (an hour, on a quiet machine)'
	@echo 'make soak   build, then the slow tests and a minute of each fuzz target'
	@echo 'make build  the static binary dist/tardy, its man pages and completions'
	@echo 'make book   build, then the manual as a book at $(TARDY_CACHE)/book'
	@echo 'make lint   format, clippy, and the crates against deny.toml'

setup:
	@packaging/setup.sh build

setup-test:
	@packaging/setup.sh build test

setup-bench:
	@packaging/setup.sh build bench

setup-soak:
	@packaging/setup.sh build test soak

# A running tardy keeps its file: the new one takes the name. It makes what lies next to it: the man
# pages, the shell completions and the licences of others.
define INSTALL
@mkdir -p dist && cp -f $(RELEASE)/tardy dist/tardy.new && mv -f dist/tardy.new dist/tardy
@rm -rf dist/man dist/completions dist/NOTICES && mkdir -p dist/completions
@dist/tardy man --out dist/man
@dist/tardy notices > dist/NOTICES
@dist/tardy completions bash > dist/completions/tardy.bash
@dist/tardy completions zsh > dist/completions/_tardy
@dist/tardy completions fish > dist/completions/tardy.fish
endef

# What the page is drawn with, from npm's registry, checked against the lock file; the crate's build
# puts it into the binary. Write the lock file with `npm install --omit-lockfile-registry-resolved`:
# where packages come from is the user's setting.
$(PAGE)/node_modules/.package-lock.json: $(PAGE)/package-lock.json
	cd $(PAGE) && npm_config_cache=$(TARDY_CACHE)/npm \
	  npm ci --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error
	@touch $@

# After the setup, which brings npm.
page: setup
	@$(MAKE) --no-print-directory $(PAGE)/node_modules/.package-lock.json

build: page
	cargo build --release --locked
	$(INSTALL)

# Binary and tests in one go: built apart, they would choose other features of shared dependencies
# and build those twice.
build-all: setup-test page
	cargo build --release --locked --workspace --all-targets
	$(INSTALL)

DEMO := runs/demo-$(shell date -u +%Y%m%dT%H%M%SZ)

demo: build
	@$(AS_ROOT) dist/tardy run --out $(DEMO); code=$$?; \
	[ $$code = 4 ] && echo 'demo: the run is complete, but its numbers are not valid: see the verdicts above'; \
	[ $$code = 0 ] || [ $$code = 4 ] || exit $$code; \
	echo 'the page, for any browser:'; echo $(CURDIR)/$(DEMO)/report.html

# One binary a layer. In netns a test that measures waits until it has the machine to itself.
test: build-all
	TARDY_SKIPS=$(TARDY_CACHE)/skips TARDY=$(CURDIR)/dist/tardy packaging/test.sh golden sim page outside netns vm

bench: setup-bench build
	cargo build --release --locked -p tardy-bench-compare -p tardy-bench-generate
	@$(AS_ROOT) $(RELEASE)/bench --page docs/performance.md

soak: setup-soak build-all
	TARDY_SKIPS=$(TARDY_CACHE)/skips TARDY=$(CURDIR)/dist/tardy packaging/soak.sh

# BUILT=1 takes the binary that `make test` has built: built apart, it would cost minutes again.
book: $(if $(BUILT),,build)
	@TARDY=$(CURDIR)/dist/tardy packaging/book.sh

lint: page
	cargo fmt --check
	cargo clippy --release --locked --workspace --all-targets -- -D warnings
	packaging/deny.sh

clean:
	rm -rf dist $(CARGO_TARGET_DIR) $(PAGE)/node_modules
