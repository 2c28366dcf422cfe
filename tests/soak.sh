#!/usr/bin/env bash
# Faults from a seed on real clusters while clients read and write. `make soak` calls it.
# usage: [MINUTES=10] [SEED=<number>] tests/soak.sh
set -euo pipefail
cd "$(dirname "$0")/.."

deploy/images.sh target/images dev
cargo build -q --locked -p tests --bins
target/debug/local-kube build
exec target/debug/soak --minutes "${MINUTES:-10}" ${SEED:+--seed "$SEED"}
