# Copyright The phasecol Authors
# SPDX-License-Identifier: Apache-2.0

AT_ROOT := 1
include Makefile.Common
.DEFAULT_GOAL := help
# Targets share two cores and a build cache; Go runs in parallel by itself.
.NOTPARALLEL:

# go.work is the one list of modules.
MODULES      := $(shell sed -n 's|^[[:space:]]*\./\([^[:space:]]*\).*|\1|p' go.work)
UNIT_MODULES := $(filter-out test,$(MODULES))
# `./path/...` is what the go command accepts in a workspace whose root is no module.
ALL_PKGS     := $(MODULES:%=./%/...)
UNIT_PKGS    := $(UNIT_MODULES:%=./%/...)
# Modules that ship in the Collector: these have a floor for coverage.
COMPONENTS   := $(filter-out cmd/% deploy/% test,$(MODULES))

BIN      := bin
PHASECOL := $(BIN)/phasecol
DIST     := _build/phasecol
CONFIGS  := $(sort $(wildcard config/*.yaml))

# Everything that can change a binary. Tests cannot.
GO_MODS   := $(MODULES:%=%/go.mod)
go_source  = $(shell find $(1) -type f \( -name '*.go' -o -name go.mod -o -name go.sum -o -path '*/embed/*' \) -not -name '*_test.go' -not -path '*/testdata/*')
LIB_SRC   := $(call go_source,$(COMPONENTS))

# No revision stamp: the same sources give the same bytes, in a clone, a
# tarball or a container where git refuses to work.
BUILD_FLAGS := -trimpath -buildvcs=false
LDFLAGS     ?= -s -w

E2E_TIMEOUT ?= 20m
TEST_FORMAT ?= pkgname-and-test-fails
BENCH       ?= .
COUNT       ?= 1
FUZZTIME    ?= 10s
COVER_MIN   ?= 80

.PHONY: help
help: ## Show the targets
	@echo 'Targets (make TARGET VARIABLE=value):'
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/\1\t\2/p' Makefile deploy/deploy.mk | while IFS=$$'\t' read -r t d; do printf '  %-16s %s\n' "$$t" "$$d"; done

##@ Try it

.PHONY: run
run: $(PHASECOL) $(BIN)/stracegen ## Start the collector on simulated input and show what comes out (KEEP=1 leaves it running)
	@go run ./cmd/phaserun run

.PHONY: replay
replay: $(PHASECOL) ## Put a log of yours through the same pipeline once: LOG=file, directory or .gz
	@[[ -n "$${LOG:-}" ]] || { echo 'replay: say which log: make replay LOG=path' >&2; exit 2; }
	@go run ./cmd/phaserun replay "$$LOG"

##@ Build

.PHONY: build
build: $(PHASECOL) $(BIN)/stracegen $(BIN)/stracetiming ## Build bin/phasecol, bin/stracegen, bin/stracetiming where sources changed

# `go mod tidy` gives a new import the newest version there is, and one module
# that does so moves the whole Collector, or breaks its build far from the cause.
# pprof's own version: docs/dependencies.md.
RELEASED   := collector(/[^ ]+)? (v0\.158\.0|v1\.64\.0)|-contrib/[^ ]+ v0\.158\.0|-contrib/extension/pprofextension v0\.155\.0|otel(/[^ ]+)? (v1\.44|v0\.20|v0\.66)\.
of_release  = if grep -HE 'go\.opentelemetry\.io/(collector|otel)|opentelemetry-collector-contrib' $(GO_MODS) $(DIST)/go.mod | grep -v '/cmd/' | grep -vE '$(RELEASED)'; \
	then echo 'these versions are not of the release in builder-config.yaml' >&2; exit 1; fi

# ocb writes main.go, the component list and a complete go.mod. That needs
# doing again only when the list of components or some module's requirements
# change; a change of code needs the compiler alone.
# GOWORK=off: the output lies below go.work and is none of its modules.
$(DIST)/main.go: builder-config.yaml $(GO_MODS) $(OCB)
	@echo 'writing the collector from builder-config.yaml (the first time, modules are downloaded)' >&2
	@mkdir -p $(@D)
	@GOWORK=off $(OCB) --config builder-config.yaml --skip-compilation >$(DIST)/ocb.log 2>&1 || { cat $(DIST)/ocb.log >&2; exit 1; }
	@$(of_release)
	@touch $@

$(PHASECOL): $(DIST)/main.go $(LIB_SRC)
	@echo 'compiling bin/phasecol (the first time: some 2,000 packages, minutes; later: seconds)' >&2
	@mkdir -p $(@D)
	@cd $(DIST) && GOWORK=off CGO_ENABLED=0 go build -v $(BUILD_FLAGS) -ldflags '$(LDFLAGS)' -o $(SRC_ROOT)/$@ . 2>&1 | $(SRC_ROOT)/internal/tools/progress.sh
	@touch $@

# The commands need no builder; the workspace resolves the local modules.
define command
$(BIN)/$(1): go.work $(call go_source,cmd/$(1)) $(LIB_SRC)
	@echo 'compiling bin/$(1)' >&2
	@mkdir -p $$(@D)
	@CGO_ENABLED=0 go build -v $(BUILD_FLAGS) -ldflags '$(LDFLAGS)' -o $$@ ./cmd/$(1) 2>&1 | $(SRC_ROOT)/internal/tools/progress.sh
	@touch $$@
endef
$(eval $(call command,stracegen))
$(eval $(call command,stracetiming))

.PHONY: tools
tools: $(OCB) $(MDATAGEN) $(GOTESTSUM) $(BENCHSTAT) $(GOVULNCHECK) $(GOLANGCI) ## Build the pinned tools into .tools/

.PHONY: generate
generate: $(MDATAGEN) ## Write all generated files again
	@for m in $(MODULES); do echo "generate: $$m" >&2; (cd "$$m" && go generate ./...); done

##@ Test

.PHONY: test
test: test-unit test-deploy test-e2e ## Run every test: all modules, then end to end with the built binary and real peers

.PHONY: test-unit
test-unit: $(GOTESTSUM) ## Run the modules' own tests, with the race detector
	$(GOTESTSUM) --format $(TEST_FORMAT) -- $(RACE) -timeout $(UNIT_TIMEOUT) $(UNIT_PKGS)

.PHONY: peers
peers: ## Install, fetch or build what the end-to-end tests run against, once (Jaeger: minutes)
	@test/packages.sh
	@test/metrics/setup.sh >/dev/null
	@test/backend/setup.sh
	@test/interop/setup.sh >/dev/null

# -count=1: the binary and the processes started are no inputs that the test
# cache knows of. -p 1: each package starts several Collectors.
.PHONY: test-e2e
test-e2e: build peers $(GOTESTSUM) ## Run the end-to-end tests against bin/phasecol
	PHASECOL_BIN=$(SRC_ROOT)/$(PHASECOL) $(GOTESTSUM) --format $(TEST_FORMAT) -- -p 1 -count=1 -timeout $(E2E_TIMEOUT) ./test/...

.PHONY: interop
interop: build ## Send spans with the OpenTelemetry Python SDK (installs it into the user's cache) and check what comes out
	@test/interop/setup.sh >/dev/null
	PHASECOL_BIN=$(SRC_ROOT)/$(PHASECOL) go test -count=1 ./test/interop

.PHONY: validate
validate: $(PHASECOL) ## Check every config/*.yaml with the built binary, started as its header says
	@internal/tools/validate.sh $(PHASECOL) $(CONFIGS)

# Package by package: the go command fuzzes one target at a time.
.PHONY: fuzz
fuzz: ## Fuzz every target for FUZZTIME (10s) each
	@grep -rlE --include='*_test.go' '^func Fuzz' $(MODULES) | while read -r f; do \
	  for t in $$(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\).*/\1/p' "$$f"); do \
	    echo "fuzz: $$(dirname "$$f") $$t"; \
	    go test -run '^$$' -fuzz "^$$t\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x "./$$(dirname "$$f")"; \
	  done; \
	done

.PHONY: bench
bench: $(BENCHSTAT) ## Run the benchmarks: BENCH=regexp COUNT=n, BASE=earlier bench.txt to compare with
	@mkdir -p $(BIN)
	go test -run '^$$' -bench '$(BENCH)' -benchmem -count $(COUNT) $(UNIT_PKGS) | tee $(BIN)/bench.txt
	@if [[ -n "$${BASE:-}" ]]; then $(BENCHSTAT) "$$BASE" $(BIN)/bench.txt; fi

.PHONY: cover
cover: ## Measure coverage; fails where a shipped module is under COVER_MIN (80) percent
	@mkdir -p $(BIN)/cover
	@fail=0; for m in $(COMPONENTS); do \
	  p=$(SRC_ROOT)/$(BIN)/cover/$$(basename "$$m").out; \
	  (cd "$$m" && go test -coverpkg=./... -coverprofile="$$p.all" ./... >"$$p.log" 2>&1) || { cat "$$p.log"; exit 1; }; \
	  grep -Ev '/generated_|/metadatatest/' "$$p.all" >"$$p"; \
	  pct=$$(cd "$$m" && go tool cover -func="$$p" | awk 'END { sub("%", "", $$NF); print $$NF }'); \
	  printf '%-34s %5s %%\n' "$$m" "$$pct"; \
	  awk -v p="$$pct" -v min=$(COVER_MIN) 'BEGIN { exit p < min }' || fail=1; \
	done; [[ $$fail == 0 ]] || { echo 'cover: under $(COVER_MIN) %' >&2; exit 1; }

##@ Keep it clean

.PHONY: lint
lint: $(GOLANGCI) lint-deploy ## Run golangci-lint over all modules
	$(GOLANGCI) run --allow-parallel-runners $(ALL_PKGS)

.PHONY: fmt
fmt: $(GOLANGCI) ## Format all Go code
	$(GOLANGCI) fmt $(MODULES)

# Each module must also stand alone, outside the workspace.
.PHONY: tidy
tidy: ## go mod tidy in every module
	@for m in $(MODULES) internal/tools internal/tools/lint; do echo "tidy: $$m" >&2; (cd "$$m" && GOWORK=off go mod tidy); done

.PHONY: check-tidy
check-tidy: ## Fail where a go.mod or go.sum is not tidy
	@for m in $(MODULES); do (cd "$$m" && GOWORK=off go mod tidy -diff) || { echo "check-tidy: $$m: run make tidy and commit" >&2; exit 1; }; done

.PHONY: check-release
check-release: $(DIST)/main.go ## Fail where a module asks for another release of the Collector
	@$(of_release)

# Compares the tree with itself, so that it can be run before a commit too.
# go.work.sum grows with what the go command happens to look at.
tree_state = { git diff -- . ':!go.work.sum'; git ls-files -z --others --exclude-standard -x go.work.sum | xargs -0r sha256sum; }
.PHONY: check-generated
check-generated: $(MDATAGEN) ## Fail where make generate changes a file
	@mkdir -p $(BIN); $(tree_state) >$(BIN)/tree.before
	@$(MAKE) --no-print-directory generate
	@$(tree_state) >$(BIN)/tree.after
	@diff -u $(BIN)/tree.before $(BIN)/tree.after || { echo 'check-generated: run make generate and commit' >&2; exit 1; }

# VULNDB=module reads the database from the Go module proxy, for machines that
# reach nothing else; any other value is passed on as govulncheck's -db.
.PHONY: vulncheck
vulncheck: $(DIST)/main.go $(GOVULNCHECK) ## Look for known vulnerabilities in the Collector: VULNDB=module where only a module proxy is reached
	@db="$${VULNDB:-https://vuln.go.dev}"; \
	[[ $$db != module ]] || db=file://$$(go mod download -json golang.org/x/vulndb@latest | sed -n 's/.*"Dir": "\(.*\)",/\1/p')/data/osv; \
	cd $(DIST) && GOWORK=off $(GOVULNCHECK) -db "$$db" .

.PHONY: clean
clean: ## Remove what was built; keeps run/, the tools and the Go caches
	rm -rf bin _build dist

include deploy/deploy.mk
