#!/usr/bin/env bash
# What the project needs on a machine, installed where it is missing: Debian packages and a Rust target.
# Can be run at any time; where all is there it takes a moment.
# usage: tests/kube/setup.sh [--tests]
#   --tests   the test runner, too: building it takes minutes
set -euo pipefail

case "${1:-}" in
  "") tests= ;;
  --tests) tests=yes ;;
  *) sed -n '4,5s/^# //p' "$0" >&2; exit 2 ;;
esac

NEXTEST=0.9.151
GO_AT_LEAST=1.26
packages=(
  buildah busybox-static ca-certificates conntrack containerd containernetworking-plugins gcc iproute2 iptables
  kmod libc6-dev libprotobuf-dev make procps protobuf-compiler runc util-linux
)

say() { echo "setup: $*" >&2; }
fail() { say "$*"; exit 1; }

[ "$(id -u)" = 0 ] || fail "run this as root: the local Kubernetes makes namespaces, mounts and cgroups"

missing=()
for package in "${packages[@]}"; do
  case "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" in
    installed) ;;
    *) missing+=("$package") ;;
  esac
done
if [ ${#missing[@]} -gt 0 ]; then
  say "installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  # No service is to be started: the local Kubernetes runs its own containerd.
  if [ ! -e /usr/sbin/policy-rc.d ]; then
    trap 'rm -f /usr/sbin/policy-rc.d' EXIT
    printf '#!/bin/sh\nexit 101\n' >/usr/sbin/policy-rc.d
    chmod +x /usr/sbin/policy-rc.d
  fi
  apt-get install -qq -y --no-install-recommends "${missing[@]}" >/dev/null
fi

# Bridged frames between Pods of one node pass the packet filter; on most kernels a module does that.
[ -e /proc/sys/net/bridge ] || modprobe br_netfilter || fail "the kernel module br_netfilter cannot be loaded"
grep -qw overlay /proc/filesystems || modprobe overlay || fail "the kernel module overlay cannot be loaded"

command -v cargo >/dev/null || fail "cargo is missing: install Rust with rustup"
command -v go >/dev/null || fail "go is missing: install Go $GO_AT_LEAST or newer"
go_version=$(go env GOVERSION)
printf '%s\n%s\n' "$GO_AT_LEAST" "${go_version#go}" | sort -VC ||
  fail "Go ${go_version#go} is too old: install Go $GO_AT_LEAST or newer"

cd "$(dirname "$0")/../.."
target="$(uname -m)-unknown-linux-musl"
if command -v rustup >/dev/null; then
  # The toolchain file names the version; this fetches it and the target if they are not there.
  rustup target list --installed 2>/dev/null | grep -qx "$target" || { say "adding the Rust target $target"; rustup target add "$target"; }
else
  [ -d "$(rustc --print sysroot)/lib/rustlib/$target" ] || fail "Rust has no target $target: install it"
fi

[ "$tests" ] || exit 0
case "$(cargo nextest --version 2>/dev/null)" in
  "cargo-nextest $NEXTEST"*) ;;
  *)
    say "building the test runner, cargo-nextest $NEXTEST (a few minutes, once)"
    cargo install --quiet cargo-nextest --locked --version "$NEXTEST" || fail "cargo-nextest could not be installed"
    ;;
esac
