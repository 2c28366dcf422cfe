#!/usr/bin/env bash
# Measures the figures; a table, and target/bench/figures.json. `make bench` calls it.
# usage: [ONLY=<figure id>,...] [RUNS=5] tests/bench.sh [--timeline]
set -euo pipefail
cd "$(dirname "$0")/.."

deploy/images.sh target/images dev
cargo build -q --locked -p tests --bins
exec target/debug/bench ${ONLY:+--only "$ONLY"} --runs "${RUNS:-5}" "$@"
