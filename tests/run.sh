#!/usr/bin/env bash
# Every test, in one run of the test runner. `make test` and CI call it.
# usage: tests/run.sh [nextest arguments, such as a filter]
set -euo pipefail
cd "$(dirname "$0")/.."

tests/lint.sh
deploy/images.sh target/images dev
cargo build -q --locked -p tests --bins
kube=target/debug/local-kube
"$kube" build

# The scenarios share these two; the first one that needs one starts it.
trap '"$kube" down --name test; "$kube" down --name test-nodes' EXIT
cargo nextest run --workspace --locked --no-fail-fast ${CI:+--profile ci} "$@"
