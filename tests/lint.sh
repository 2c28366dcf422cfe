#!/usr/bin/env bash
# Format, clippy, shell syntax, and one TLS stack. Prints what is wrong and exits with 1.
set -euo pipefail
cd "$(dirname "$0")/.."

cargo fmt --all --check
cargo clippy --workspace --all-targets --locked -- -D warnings
for script in $(git ls-files '*.sh' .ci/run); do bash -n "$script"; done

# rustls with ring is the one TLS stack: a second one doubles the attack surface and the binary.
for crate in aws-lc-rs openssl-sys native-tls; do
  if cargo tree --workspace --target all -e normal,build -i "$crate" 2>/dev/null | grep -q .; then
    echo "lint: $crate is in the dependency tree:" >&2
    cargo tree --workspace --target all -e normal,build -i "$crate" >&2
    exit 1
  fi
done
echo "lint: clean"
