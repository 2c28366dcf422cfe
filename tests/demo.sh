#!/usr/bin/env bash
# The main job, shown: a local Kubernetes, the operator, a cluster of three that forms, serves, and heals. `make demo`
# calls it. It can be run again and again; what it started stays until `make kube-down`.
set -euo pipefail
cd "$(dirname "$0")/.."

readonly cluster=example
readonly sample=deploy/samples/etcdcluster.yaml
readonly images=(target/images/etcd-operator.tar target/images/etcd-agent.tar)
readonly local=.local/kube
export KUBECONFIG=$PWD/$local/kubeconfig
export PATH=$PATH:$PWD/$local/bin
begin=$(date +%s%N)
summary=

# Seconds since that time in nanoseconds, such as 3.1.
since() { awk -v from="$1" -v to="$(date +%s%N)" 'BEGIN { printf "%.1f", (to - from) / 1e9 }'; }
say() { printf '[%6s s] %s\n' "$(since "$begin")" "$*"; }
indent() { sed -u 's/^/            /'; }
# Lines of `kubectl get --watch` in which more has changed than the age.
news() {
  awk '{ seen = $0; gsub(/ [0-9]+(m[0-9]*)?s /, " ", seen) } seen != last { print "            " $0; fflush() } { last = seen }'
}
fail() { echo "demo: $*" >&2; exit 1; }

# step <what> <command...>: runs it, and notes how long it took.
step() {
  local what=$1 from
  shift
  say "$what"
  from=$(date +%s%N)
  "$@"
  summary+=$(printf '%8s s  %s' "$(since "$from")" "$what")$'\n'
}

show_state() {
  local status=$?
  trap - EXIT
  [ -z "${watching:-}" ] || kill "$watching" 2>/dev/null || true
  [ "$status" != 0 ] || return 0
  if [ ! -e "$KUBECONFIG" ]; then
    echo "demo: failed before there was a Kubernetes; the reason is above" >&2
    exit "$status"
  fi
  echo "demo: failed; what is there:" >&2
  kubectl get etcdclusters,etcdmembers,pods -o wide >&2 || true
  kubectl get events --sort-by=.lastTimestamp 2>/dev/null | tail -n 20 >&2 || true
  kubectl -n etcd-operator-system logs deployment/etcd-operator --all-pods --prefix --tail=20 >&2 || true
  echo "demo: logs of the local Kubernetes are in $local/logs; make kube-down removes it" >&2
  exit "$status"
}

build() {
  deploy/images.sh target/images dev
  cargo build -q --locked -p tests --bins
}

# One that is up already is used, however many nodes it was started with.
kubernetes() {
  local nodes
  nodes=$(sed -n 's/^ *"nodes": \([0-9]*\),*$/\1/p' "$local/state.json" 2>/dev/null || true)
  target/debug/local-kube up --name kube --nodes "${nodes:-1}"
}

operator() {
  local loaded=$local/demo.images key
  key=$(sha256sum "${images[@]}")
  if [ "$(cat "$loaded" 2>/dev/null)" != "$key" ]; then
    target/debug/local-kube load --name kube "${images[@]}"
    # The same names with new content: Pods that are there run the old one.
    kubectl -n etcd-operator-system delete pods --all --wait=false >/dev/null 2>&1 || true
    echo "$key" > "$loaded"
  fi
  make --no-print-directory deploy
}

remove_old() {
  kubectl delete -f "$sample" --ignore-not-found --timeout=60s
  kubectl wait pods -l "etcd-operator.cozystack.io/cluster=$cluster" --for=delete --timeout=60s
}

# until_whole: three voters, all healthy, by the status that kubectl prints.
until_whole() {
  kubectl wait "etcdcluster/$cluster" --for=jsonpath='{.status.readyMembers}'=3 --timeout=120s >/dev/null
  kubectl wait "etcdcluster/$cluster" --for=condition=Available --timeout=10s >/dev/null
}

form() {
  kubectl apply -f "$sample"
  kubectl get "etcdcluster/$cluster" --watch > >(news) 2>/dev/null &
  watching=$!
  until_whole
  kill "$watching"
  wait "$watching" 2>/dev/null || true
  watching=
  kubectl get etcdmembers -l "etcd-operator.cozystack.io/cluster=$cluster"
}

# etcdctl <name of the Pod> <arguments...>: runs it in a Pod of its own, through the client Service.
etcdctl() {
  local pod=$1 image
  shift
  image=quay.io/coreos/etcd:v$(kubectl get "etcdcluster/$cluster" -o jsonpath='{.spec.version}')
  echo "etcdctl --endpoints=http://$cluster-client:2379 $*"
  kubectl delete pod "$pod" --ignore-not-found --now >/dev/null
  kubectl run "$pod" --image="$image" --restart=Never --command -- \
    etcdctl "--endpoints=http://$cluster-client:2379" "$@" >/dev/null
  kubectl wait "pod/$pod" --for=jsonpath='{.status.phase}'=Succeeded --timeout=60s >/dev/null
  kubectl logs "$pod" | indent
  kubectl delete pod "$pod" --wait=false >/dev/null
}

# jsonpath of the member that leads, or of the member of that name.
leader() { kubectl get "etcdcluster/$cluster" -o jsonpath='{.status.members[?(@.role=="Leader")].name}'; }
id_of() { kubectl get "etcdcluster/$cluster" -o jsonpath="{.status.members[?(@.name==\"$1\")].id}"; }

heal() {
  local member=$1 uid
  uid=$(kubectl get pod "$member" -o jsonpath='{.metadata.uid}')
  kubectl get "etcdcluster/$cluster" --watch > >(news) 2>/dev/null &
  watching=$!
  kubectl delete pod "$member" --wait=false
  while [ "$(kubectl get pod "$member" -o jsonpath='{.metadata.uid}' 2>/dev/null || echo "$uid")" = "$uid" ]; do sleep 0.1; done
  kubectl wait "pod/$member" --for=condition=Ready --timeout=120s >/dev/null
  until_whole
  kill "$watching"
  wait "$watching" 2>/dev/null || true
  watching=
}

[ "$(id -u)" = 0 ] || fail "run this as root: the local Kubernetes makes namespaces, mounts and cgroups"
for program in cargo go; do
  command -v "$program" >/dev/null || fail "$program is missing; install Rust (rustup) and Go first"
done
trap show_state EXIT

step "build the operator, the agent, and their images" build
step "start a local Kubernetes" kubernetes
step "deploy the operator" operator
step "remove the cluster of an earlier demo" remove_old
step "form a cluster of three: kubectl apply -f $sample" form
step "write through the client Service" etcdctl demo-put put demo/greeting "hello, etcd"
lost=$(leader)
id=$(id_of "$lost")
step "kill the leader's Pod, $lost, and wait until three vote again" heal "$lost"
say "$lost is back with its data: member ID $id before, $(id_of "$lost") after"
step "read what was written" etcdctl demo-get get demo/greeting
kubectl get "etcdcluster/$cluster"

cat <<END

$summary
Look around:
  export KUBECONFIG=$KUBECONFIG
  export PATH=\$PATH:$PWD/$local/bin        # kubectl, etcdctl
  kubectl get etcdclusters,etcdmembers,pods
  kubectl describe etcdcluster $cluster
  kubectl get --raw /api/v1/namespaces/default/pods/$lost:2382/proxy/status    # what the agent of $lost sees
  kubectl apply -f deploy/samples/etcdcluster-memory.yaml
End it all:
  make kube-down
END
