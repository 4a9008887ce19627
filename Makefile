# Quorate: everything that is done to this tree by a machine. CI runs these targets and nothing else.
SHELL := /bin/bash
TOOL  := go tool -modfile=.ci/tools/go.mod
GOBIN := $(shell go env GOROOT)/bin

# Packages whose tests start processes; everything else is tested without processes.
PROCESS_PACKAGES := /test/cluster$$|/test/chaos$$
ROUNDS ?= 20
KILLS  ?= 200
SEED   ?=
COUNT  ?= 7
STATES ?= 20000000
TIME   ?= 60s
FUZZ   ?=
WORLDS ?=

.DEFAULT_GOAL := help
.PHONY: help build test-unit test-process test lint proto proto-check rewrite bench acceptance chaos model counts fuzz clean

help: ## show the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-13s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: ## bin/quorate, static
	CGO_ENABLED=0 go build -trimpath -o bin/quorate ./cmd/quorate

test-unit: ## everything that starts no process, with the race detector
	@.ci/test-unit '$(PROCESS_PACKAGES)'

test-process: ## the tests that start processes, built without the race detector
	@.ci/test-process

test: test-unit test-process ## all tests

lint: ## gofmt, go vet, staticcheck, buf lint
	@out=$$($(GOBIN)/gofmt -l . ); if [ -n "$$out" ]; then echo "gofmt would change:"; echo "$$out"; exit 1; fi
	go vet ./...
	$(TOOL) staticcheck ./...
	$(TOOL) buf lint

proto: ## generate Go from the .proto files
	$(TOOL) buf generate --template proto/buf.gen.yaml

proto-check: ## buf lint, generated code up to date, nothing broken against the last commit of main
	@.ci/proto-check

rewrite: ## write the golden files anew; review them like code
	go test $$(grep -rl --include='*_test.go' -e 'datadriven\.' -e 'golden\.' . | xargs -n1 dirname | sort -u) -rewrite

bench: ## the benchmarks, medians of COUNT=7 runs
	@.ci/bench $(COUNT)

acceptance: ## the kills with full observation times and their bounds asserted; wants a quiet machine
	QUORATE_ACCEPTANCE=1 CGO_ENABLED=0 go test -count=1 -v -timeout 30m -run 'TestKillPartitionLeader|TestActiveController|TestPausedFollower|TestAllDie|TestMovesSurvive|TestWipedLeader' ./test/cluster

chaos: ## kill and pause processes at random: ROUNDS=20 KILLS=200 SEED=
	@.ci/chaos '$(ROUNDS)' '$(KILLS)' '$(SEED)'

model: ## search small worlds of the real decisions, some ten minutes and 4 GB: STATES=20000000 WORLDS=
	MODEL_STATES='$(STATES)' MODEL_WORLDS='$(WORLDS)' go test ./test/model -run 'TestWorlds|TestPlantedBugs' -v -count 1 -timeout 4h

counts: ## how much is checked: transcripts, rules, and what the model searches within STATES=300000
	@.ci/counts '$(if $(filter file,$(origin STATES)),300000,$(STATES))'

fuzz: ## every fuzz target for TIME=60s; FUZZ= names some
	@.ci/fuzz '$(TIME)' '$(FUZZ)'

clean: ## remove what build made
	rm -rf bin
