# What people run. The parts of `make test` are in .ci/test, what has to be on the machine in .ci/tools.
SHELL := bash
TARGET := $(or $(CARGO_TARGET_DIR),target)
# Say `make up ARGS="--listen 127.0.0.1:0"` to pass settings on.
ARGS ?=

.PHONY: help up build check test soak bench-against fuzz dist deny

help:
	@echo "make up     build the release binary and start a node (ARGS=... is passed on)"
	@echo "make build  build the release binary: $(TARGET)/release/rialto"
	@echo "make check  format, lints, unit tests, architecture: before every commit"
	@echo "make test   every test, with the minutes of each part"
	@echo "make soak   the long runs: simulated worlds, power cuts, turned bits, fuzz targets (hours)"
	@echo "make bench-against REF=commit   this build and that commit's, measured in turns"
	@echo "make fuzz   every fuzz target for a while (SECONDS=60)"
	@echo "make dist   the stripped binary and its size"
	@echo "make deny   licences, sources and advisories of the dependencies (needs cargo-deny)"

up: build
	$(TARGET)/release/rialto up $(ARGS)

build:
	@.ci/tools
	cargo build --release -p rialto-cli

check:
	@.ci/test check

test:
	@.ci/test all

soak:
	@.ci/soak

bench-against: build
	@.ci/bench-against $(TARGET)/release/rialto $(REF) $(ARGS)

fuzz:
	@.ci/fuzz $(or $(SECONDS),60)

dist:
	@.ci/tools
	cargo build --profile dist -p rialto-cli
	@bytes=$$(wc -c < $(TARGET)/dist/rialto); \
	    echo "$(TARGET)/dist/rialto: $$bytes bytes ($$((bytes / 1048576)) MiB)"

deny:
	cargo deny check
