#!/usr/bin/env bash
# Fills corpus/{wal,db,snap} from real data directories: one of each etcd that is given, made and killed here.
#   ./corpus.sh ~/.cache/etcd-operator/etcd-3.*/
# Then, with a nightly compiler: cargo +nightly fuzz run wal
set -eu
cd "$(dirname "$0")"
mkdir -p corpus/wal corpus/db corpus/snap
for folder in "$@"; do
    name=$(basename "$folder")
    data=$(mktemp -d)
    "$folder/etcd" --data-dir "$data" --snapshot-count 20 --log-level error \
        --listen-peer-urls http://127.0.0.1:23810 --initial-advertise-peer-urls http://127.0.0.1:23810 \
        --initial-cluster default=http://127.0.0.1:23810 \
        --listen-client-urls http://127.0.0.1:23811 --advertise-client-urls http://127.0.0.1:23811 &
    etcd=$!
    for n in $(seq 1 70); do
        "$folder/etcdctl" --endpoints 127.0.0.1:23811 put "key$((n % 9))" "value $n" > /dev/null
    done
    kill -9 $etcd
    wait $etcd || true
    # Without what etcd has preallocated.
    for wal in "$data"/member/wal/*.wal; do
        python3 -c 'import sys; sys.stdout.buffer.write(sys.stdin.buffer.read().rstrip(b"\0") + bytes(64))' \
            < "$wal" > "corpus/wal/$name-$(basename "$wal")"
    done
    python3 -c 'import sys; sys.stdout.buffer.write(sys.stdin.buffer.read().rstrip(b"\0"))' \
        < "$data/member/snap/db" > "corpus/db/$name"
    for snap in "$data"/member/snap/*.snap; do
        cp "$snap" "corpus/snap/$name-$(basename "$snap")"
    done
    rm -rf "$data"
done
