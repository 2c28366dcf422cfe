# The few commands a person types. `make demo` and `make test` are the two that matter; both set up what they need.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

NODES ?= 1
IMAGE_DIR := target/images
LOCAL_KUBE := cargo run -q -p tests --bin local-kube --
# Where the images are pulled from by `make deploy`; empty: images of the local Kubernetes.
IMAGES ?=
TAG ?= dev
PREFIX := $(if $(IMAGES),$(IMAGES)/,)

# For machines without a kubectl of their own.
export PATH := $(PATH):$(CURDIR)/.local/kube/bin

.PHONY: help setup demo test lint bench search soak kube-up kube-down images deploy undeploy generate

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 14

setup: ## packages and Rust target that everything below needs (idempotent)
	@tests/kube/setup.sh

demo: setup ## the main job: a local Kubernetes, the operator, a cluster that forms, serves and heals
	@tests/demo.sh

test: ## every test; ends with the runner's count
	@tests/kube/setup.sh --tests
	@tests/run.sh

lint: setup ## format, clippy, one TLS stack
	@tests/lint.sh

bench: setup ## the figures: a table, and target/bench/figures.json; ONLY=<figure id>,... for some, RUNS=5
	@tests/bench.sh

soak: setup ## faults on real clusters for MINUTES=10, from SEED=<number> or one that is printed; histories are checked
	@tests/soak.sh

search: ## every reachable state of small clusters, with the real planner; ONLY=<part of a name>
	@cargo run -q --locked --profile search -p tests --bin search -- $(if $(ONLY),--only "$(ONLY)")

kube-up: setup ## a local Kubernetes of NODES=1..3; kubeconfig at .local/kube/kubeconfig
	@$(LOCAL_KUBE) up --name kube --nodes $(NODES)

kube-down: ## take it away
	@$(LOCAL_KUBE) down --name kube

generate: ## CRDs and API reference from the Rust types
	cargo run -q -p crds --example generate

images: ## both images, as archives in target/images
	@deploy/images.sh $(IMAGE_DIR) $(TAG)

deploy: ## the operator into the cluster that KUBECONFIG names; IMAGES=<registry/path> TAG=<tag>
	@kubectl kustomize deploy \
	  | sed -E 's#image: (etcd-(operator|agent)):dev#image: $(PREFIX)\1:$(TAG)#; s#=(etcd-agent):dev#=$(PREFIX)\1:$(TAG)#; s#value: (etcd-(operator|agent)):dev#value: $(PREFIX)\1:$(TAG)#' \
	  | kubectl apply --server-side -f -
	@kubectl -n etcd-operator-system rollout status deployment/etcd-operator --timeout=120s

undeploy: ## the operator away; etcd keeps running; ALL=1: every cluster, its data and the CRDs, too
	@deploy/undeploy.sh $(if $(ALL),--all)
