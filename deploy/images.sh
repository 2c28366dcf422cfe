#!/usr/bin/env bash
# Builds the static binaries and both images; writes them as docker archives to DIR.
# usage: [PROFILE=release|quick] deploy/images.sh [DIR [TAG]]
set -euo pipefail
cd "$(dirname "$0")/.."
dir=${1:-target/images} tag=${2:-dev}
target=x86_64-unknown-linux-musl
profile=${PROFILE:-release}
bin=target/$target/$profile

echo "building etcd-operator and etcd-agent ($target, $profile)"
cargo build --profile "$profile" --target "$target" -p operator -p agent

# An archive is made anew only when a binary has changed.
stamp=$(cat "$bin/etcd-operator" "$bin/etcd-agent" Dockerfile.operator Dockerfile.agent | sha256sum | cut -d' ' -f1)
if [ "$(cat "$dir/stamp.$tag" 2>/dev/null)" = "$stamp" ]; then
  echo "images are up to date: $dir"
  exit 0
fi

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$dir" "$root/operator" "$root/agent"
cp "$bin/etcd-operator" "$bin/etcd-agent" "$root/operator/"
# The Go operator's entry point; manifests that name it keep working.
ln -s etcd-operator "$root/operator/manager"
cp "$bin/etcd-agent" "$root/agent/"

for name in operator agent; do
  echo "image etcd-$name:$tag"
  buildah --storage-driver vfs --root "$root/store" --runroot "$root/run" bud --quiet --isolation chroot \
    -f "Dockerfile.$name" -t "docker.io/library/etcd-$name:$tag" "$root/$name" > /dev/null
  rm -f "$dir/etcd-$name.tar"
  buildah --storage-driver vfs --root "$root/store" --runroot "$root/run" push --quiet \
    "docker.io/library/etcd-$name:$tag" "docker-archive:$dir/etcd-$name.tar:docker.io/library/etcd-$name:$tag"
done
echo "$stamp" > "$dir/stamp.$tag"
