#!/usr/bin/env bash
# Takes the operator out of the cluster that KUBECONFIG names. etcd keeps serving, and clusters can still be deleted.
# usage: deploy/undeploy.sh [--all]
#   --all   every EtcdCluster with its data, the deletion guard, the CRDs and the namespace, too
set -euo pipefail
cd "$(dirname "$0")"

readonly namespace=etcd-operator-system
readonly group=etcd-operator.cozystack.io
readonly kinds=(etcdsnapshotpolicies etcddefragpolicies etcdrecoveries etcdsnapshots etcddefrags etcdclusters)
readonly patience=120s

say() { echo "undeploy: $*"; }

installed() { kubectl get crd "$1.$group" -o name >/dev/null 2>&1; }

# Prints "<namespace> <name>" for each EtcdMember.
members() {
  installed etcdmembers || return 0
  kubectl get "etcdmembers.$group" -A -o jsonpath='{range .items[*]}{.metadata.namespace} {.metadata.name}{"\n"}{end}'
}

operator_runs() {
  [ "$(kubectl -n "$namespace" get deployment etcd-operator -o jsonpath='{.status.readyReplicas}' 2>/dev/null)" ]
}

# While the operator is there it ends clusters in order. Without it the garbage collector does, once no finalizer of
# ours is left.
remove_clusters() {
  local kind
  for kind in "${kinds[@]}"; do
    installed "$kind" || continue
    say "deleting all $kind"
    kubectl delete "$kind.$group" -A --all --wait=false
  done
  if operator_runs && [ "$(members)" ]; then
    say "waiting until the operator has ended the members (at most $patience)"
    kubectl wait "etcdmembers.$group" -A --all --for=delete --timeout="$patience" || true
  fi
}

remove_operator() {
  say "removing the operator"
  kubectl delete -f operator.yaml --ignore-not-found --cascade=foreground --timeout="$patience"
  kubectl -n "$namespace" wait pods -l app.kubernetes.io/name=etcd-operator --for=delete --timeout="$patience"
  # Another operator need not wait for a Lease that nobody renews.
  kubectl -n "$namespace" delete lease "aa20b3a9.$group" --ignore-not-found
}

# A finalizer without an operator would hold the member, and its namespace, for ever. An operator that comes back puts
# it on again.
release_members() {
  local in name
  while read -r in name; do
    [ "$name" ] || continue
    say "releasing EtcdMember $in/$name"
    kubectl -n "$in" patch "etcdmembers.$group" "$name" --type=merge -p '{"metadata":{"finalizers":null}}' >/dev/null ||
      say "EtcdMember $in/$name is gone already"
  done < <(members)
}

all=
case "${1:-}" in
  "") ;;
  --all) all=yes ;;
  *) sed -n '2,4s/^# //p' "$0" >&2; exit 2 ;;
esac

[ -z "$all" ] || remove_clusters
remove_operator
release_members
kubectl delete -f rbac.yaml --ignore-not-found

if [ -z "$all" ]; then
  say "done. etcd keeps serving; nobody repairs, grows or upgrades it."
  say "kept: the CRDs (deleting them deletes every cluster), the deletion guard, and in $namespace the agents' CA"
  exit 0
fi

if [ "$(members)" ]; then
  say "waiting until the garbage collector has ended the members that are left"
  kubectl wait "etcdmembers.$group" -A --all --for=delete --timeout="$patience"
fi
kubectl delete -f guard.yaml --ignore-not-found
kubectl delete -f crds --ignore-not-found --timeout="$patience"
kubectl delete -f namespace.yaml --ignore-not-found --timeout="$patience"
kept=$(kubectl get pvc -A -l "$group/retained" -o jsonpath='{range .items[*]}{.metadata.namespace}/{.metadata.name} {end}')
[ -z "$kept" ] || say "kept, because they may hold the last copy of data: $kept"
say "done. Nothing of the operator is left."
