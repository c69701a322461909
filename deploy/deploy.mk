# Copyright The phasecol Authors
# SPDX-License-Identifier: Apache-2.0

# Included by the root Makefile, whose variables it uses: what is shipped, made
# without a container engine. Everything goes to dist/.

RELEASE      := dist
DEPLOY_TOOLS := $(SRC_ROOT)/deploy/tools
VERSION      ?= $(shell sed -n 's/^  version: //p' builder-config.yaml)
REVISION     ?= $(shell git rev-parse HEAD 2>/dev/null || echo unknown)
# The time of every file that is packed: equal sources, equal bytes.
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)
ARCHS        ?= amd64 arm64
NATIVE       := $(shell go env GOARCH)
IMAGE        ?= ghcr.io/phasecol/phasecol

IMAGE_TOOL := $(TOOLS_BIN)/image
NFPM       := $(TOOLS_BIN)/nfpm
CYCLONEDX  := $(TOOLS_BIN)/cyclonedx-gomod
$(eval $(call tool,$(NFPM),github.com/goreleaser/nfpm/v2/cmd/nfpm,$(DEPLOY_TOOLS)))
$(eval $(call tool,$(CYCLONEDX),github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod,$(DEPLOY_TOOLS)))
$(IMAGE_TOOL): $(wildcard deploy/tools/image/*.go) deploy/tools/go.mod deploy/tools/go.sum
	@cd $(DEPLOY_TOOLS) && GOWORK=off go build -buildvcs=false -o $@ ./image

##@ Ship it

# The collector of one architecture. This machine's own is bin/phasecol; another
# is compiled from nothing the first time, minutes.
define architecture
$(RELEASE)/linux_$(1)/phasecol: $(PHASECOL) $(DIST)/main.go $(LIB_SRC)
	@mkdir -p $$(@D)
	@if [[ $(1) == $(NATIVE) ]]; then cp $(PHASECOL) $$@; else \
	  echo 'compiling the collector for $(1)' >&2; \
	  cd $(DIST) && GOWORK=off CGO_ENABLED=0 GOARCH=$(1) go build $(BUILD_FLAGS) -ldflags '$(LDFLAGS)' -o $(SRC_ROOT)/$$@ .; fi
$(RELEASE)/linux_$(1)/prepare: $(wildcard deploy/tools/prepare/*.go)
	@mkdir -p $$(@D)
	@cd $(DEPLOY_TOOLS) && GOWORK=off CGO_ENABLED=0 GOARCH=$(1) go build $(BUILD_FLAGS) -ldflags '$(LDFLAGS)' -o $(SRC_ROOT)/$$@ ./prepare
endef
$(foreach arch,$(ARCHS),$(eval $(call architecture,$(arch))))
ARCH_BINARIES := $(foreach arch,$(ARCHS),$(RELEASE)/linux_$(arch)/phasecol $(RELEASE)/linux_$(arch)/prepare)
make_image     = $(IMAGE_TOOL) -version $(VERSION) -revision $(REVISION) -epoch $(SOURCE_DATE_EPOCH) $(foreach arch,$(ARCHS),-folder $(arch)=$(RELEASE)/linux_$(arch))

.PHONY: image
image: $(IMAGE_TOOL) $(ARCH_BINARIES) ## Make the image without a container engine: dist/image, an OCI layout of ARCHS (amd64 arm64)
	@$(make_image) -out $(RELEASE)/image >$(RELEASE)/image.digest
	@echo "image: $(RELEASE)/image $$(cat $(RELEASE)/image.digest)"

.PHONY: image-push
image-push: $(IMAGE_TOOL) $(ARCH_BINARIES) ## Push the image to IMAGE:VERSION with the credentials of docker login
	@$(make_image) -push $(IMAGE):$(VERSION)

.PHONY: sbom
sbom: $(CYCLONEDX) $(ARCHS:%=$(RELEASE)/linux_%/phasecol) ## Write the bill of materials of each collector (CycloneDX)
	@for arch in $(ARCHS); do \
	  $(CYCLONEDX) bin -json -noserial -notimestamp -version v$(VERSION) -output $(RELEASE)/phasecol_$(VERSION)_linux_$$arch.cdx.json $(RELEASE)/linux_$$arch/phasecol 2>/dev/null; \
	done; ls $(RELEASE)/*.cdx.json

.PHONY: packages
packages: $(NFPM) $(ARCHS:%=$(RELEASE)/linux_%/phasecol) ## Write deb and rpm packages with a hardened systemd unit
	@for arch in $(ARCHS); do for kind in deb rpm; do \
	  ARCH=$$arch VERSION=$(VERSION) SOURCE_DATE_EPOCH=$(SOURCE_DATE_EPOCH) $(NFPM) package -f deploy/packages/nfpm.yaml -p $$kind -t $(RELEASE)/ >/dev/null; \
	done; done; ls $(RELEASE)/*.deb $(RELEASE)/*.rpm

# Names and times fixed, so that the archive is as reproducible as its content.
.PHONY: archives
archives: $(ARCHS:%=$(RELEASE)/linux_%/phasecol)
	@for arch in $(ARCHS); do \
	  tar --sort=name --mtime=@$(SOURCE_DATE_EPOCH) --owner=0 --group=0 --numeric-owner -cf - -C $(RELEASE)/linux_$$arch phasecol -C $(SRC_ROOT) LICENSE config | gzip -n >$(RELEASE)/phasecol_$(VERSION)_linux_$$arch.tar.gz; \
	done
	@tar --sort=name --mtime=@$(SOURCE_DATE_EPOCH) --owner=0 --group=0 --numeric-owner -cf - -C $(RELEASE) image | gzip -n >$(RELEASE)/phasecol_$(VERSION)_image.tar.gz

.PHONY: release
release: image sbom packages archives ## Make everything that is published, with checksums: dist/
	@cd $(RELEASE) && sha256sum *.tar.gz *.deb *.rpm *.cdx.json >checksums.txt && cat checksums.txt

# Another folder, another cache: what is equal then does not depend on either.
.PHONY: check-reproducible
check-reproducible: $(PHASECOL) ## Compile the collector again from nothing in another folder and compare (minutes)
	@there=$$(mktemp -d); trap 'chmod -R u+w "$$there"; rm -rf "$$there"' EXIT; \
	mkdir "$$there/tree"; tar -cf - --exclude=./dist --exclude=./run --exclude=./bin --exclude=./.git . | tar -xf - -C "$$there/tree"; \
	(cd "$$there/tree/$(DIST)" && GOCACHE="$$there/cache" GOWORK=off CGO_ENABLED=0 go build $(BUILD_FLAGS) -ldflags '$(LDFLAGS)' -o "$$there/phasecol" .); \
	cmp "$$there/phasecol" $(PHASECOL) && sha256sum $(PHASECOL)

.PHONY: test-deploy
test-deploy: $(PHASECOL) ## Test the image builder and the manifests
	@cd $(DEPLOY_TOOLS) && GOWORK=off go vet ./... && PHASECOL_BIN=$(SRC_ROOT)/$(PHASECOL) GOWORK=off go test ./...

.PHONY: lint-deploy
lint-deploy: $(GOLANGCI)
	@cd $(DEPLOY_TOOLS) && GOWORK=off $(GOLANGCI) run --config $(SRC_ROOT)/.golangci.yml ./...

.PHONY: manifests
manifests: ## Write again what deploy/kubernetes and deploy/operator repeat of other files
	@cd $(DEPLOY_TOOLS) && GOWORK=off go run ./manifests $(SRC_ROOT)
