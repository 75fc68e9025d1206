# `make help` lists the targets.

PREFIX ?= /usr/local
DESTDIR ?=
SYSCONFDIR ?= /etc
STRIP ?= --strip
# With "yes", make install also installs the files of clients/.
CLIENTS ?=
DEB ?= .build/deb
DIST ?= .build/dist
# The directory of the module for GIO when it is built. With GIO=yes it is installed, in GIO_MODULES.
GIO_BUILD ?= .build/gio
GIO_MODULES ?= $(if $(at_home),$(PREFIX)/lib/gio/modules,$(shell $(PKG_CONFIG) --variable=giomoduledir gio-2.0 2>/dev/null))
PKG_CONFIG ?= pkg-config
# The image of the test VM. It is built again when its inputs change.
VM_IMAGE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/connd/vm

SHELL := /bin/bash
.ONESHELL:
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Not empty if PREFIX is in the user's home directory.
at_home := $(if $(HOME),$(filter $(HOME)/%,$(PREFIX)))
# Not empty if this machine's polkit does not read PREFIX.
old_polkit = $(if $(DESTDIR)$(filter /usr,$(PREFIX)),,$(shell pkaction --version 2>/dev/null | awk '$$NF < 125 { print "yes" }'))
# as_owner DIRECTORY: the prefix for a command that writes there (empty, or sudo).
as_owner = $(if $(shell d="$(1)"; until [ -e "$$d" ]; do d=$$(dirname "$$d"); done; [ -w "$$d" ] || echo no),$(sudo))
sudo := $(if $(filter 0,$(shell id -u)),,$(if $(shell command -v sudo),sudo,dev/needs-root))
# Installed programs contain the Swift runtime, so that they run without a toolchain. Without
# -cross-module-optimization, which specializes generic code across modules, an event takes 5%
# longer.
# Tests run with checks of exclusive access; in a release they would take 3% of an event.
# All symbols of libraries are bound at the start, so that their table is read-only afterwards, and no
# library is loaded from the directory of the program.
# The programs export no symbols and have packed relocations. Otherwise the runtime would fill their
# dynamic symbol tables, and the loader would make 8 MB of tables resident.
release := dev/swift build --configuration release -Xcc -DCONND_RELEASE --static-swift-stdlib --disable-local-rpath -Xswiftc -cross-module-optimization \
    -Xswiftc -enforce-exclusivity=unchecked \
    -Xswiftc -file-prefix-map -Xswiftc $(CURDIR)=connd -Xcc -ffile-prefix-map=$(CURDIR)=connd \
    -Xswiftc -use-ld=lld -Xlinker --no-export-dynamic -Xlinker -z -Xlinker pack-relative-relocs -Xlinker -z -Xlinker now
programs := connd connctl connd-multipath
# GLib 2.64 is the oldest that the module runs with. CFLAGS comes last.
gio_flags = -std=gnu11 -O2 -g -fPIC -fvisibility=hidden -fstack-protector-strong -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2 -Wall -Wextra -Werror \
    -ffile-prefix-map=$(CURDIR)=connd -DGLIB_VERSION_MIN_REQUIRED=GLIB_VERSION_2_64 -DGLIB_VERSION_MAX_ALLOWED=GLIB_VERSION_2_64 \
    -DSYSCONFDIR='"$(SYSCONFDIR)"' -shared -Wl,-z,relro,-z,now,-z,defs
sources := find Package.swift Sources Tests Examples -name '*.swift' -not -path '*/Generated/*' -not -path '*/.build/*'

gio_packages := gcc libc6-dev libglib2.0-dev pkg-config
gio_test_packages := curl dbus-daemon iproute2 libglib2.0-bin python3 python3-gi python3-pyqt6 util-linux valgrind xdg-desktop-portal
build_packages := binutils libmnl-dev libnghttp2-dev libsystemd-dev libyaml-dev pkg-config
example_packages := g++ libgrpc++-dev libprotobuf-dev protobuf-compiler protobuf-compiler-grpc
go_packages := golang-go golang-google-grpc-dev golang-google-protobuf-dev protoc-gen-go
go_test_packages := $(go_packages) gcc iproute2 libc6-dev util-linux
# With systemd, these would start when they are installed. So they are left out, and their tests are
# skipped.
served_packages := $(if $(wildcard /run/systemd/system),,ocserv prometheus tayga)
tunnel_packages := nftables openconnect openssl openvpn wireguard-go wireguard-tools
test_packages := dbus-daemon fish git iproute2 less libpq5 nodejs postgresql-15 python3-dbus python3-gi python3-protobuf python3-venv systemd tmux iputils-ping zsh $(go_packages) $(example_packages) \
    $(tunnel_packages) $(served_packages)
reach_packages := curl default-jdk-headless gcc git golang-go iproute2 libc6-dev liburing-dev nodejs openssh-client openssl postgresql-15 python3 python3-aiohttp \
    python3-httpx python3-requests redis-tools rsync util-linux wget $(if $(wildcard /run/systemd/system),,openssh-server redis-server)
bench_packages := gcc libc6-dev procps valgrind
# The compared network managers are not installed: the benchmark unpacks their packages.
peers_packages := dbus-daemon iproute2 libsystemd-dev pkg-config systemd
protobuf_packages := git libprotobuf-dev protobuf-compiler python3-protobuf
unit_packages := mandoc systemd
deb_packages := $(gio_packages) debhelper dpkg-dev lintian python3 xz-utils
vm_packages := qemu-system-x86 mmdebstrap squashfs-tools cpio kmod xz-utils util-linux gcc-12 make libelf1

##@ Use

.PHONY: help
help: ## list the targets
	@awk 'BEGIN { FS = ":.*## " } /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	    /^[a-z-]+:.*## / { line = sprintf("  make %-24s", $$1); count = split($$2, words, " "); \
	        for (i = 1; i <= count; i++) { \
	            if (length(line) + length(words[i]) > 98) { print line; line = sprintf("%31s", "") } \
	            line = line " " words[i] } print line }' Makefile
	echo
	echo "  PREFIX=$(PREFIX) DESTDIR=$(DESTDIR) VM_IMAGE=$(VM_IMAGE)"

.PHONY: run
run: deps ## build connd, run it on a private socket and watch it
	@[ -e .build/debug/connctl ] || echo 'The first build takes one to three minutes on two processors; later ones take seconds.' >&2
	dev/build connd connctl
	dev/run "$$(dev/swift build --show-bin-path)"

.PHONY: demo demo-build
demo: ## pull a cable and see calls survive it with the library
demo-build: ## build what make demo needs
demo-build: only := --build
demo demo-build: deps
	@dev/install-packages iproute2
	Examples/demo $(only)

.PHONY: install install-built
install: release $(if $(GIO),release-gio) ## install under PREFIX (and DESTDIR, if set), with sudo if needed; with GIO=yes also the module for desktop programs, with CLIENTS=yes also clients/
	@[ -z "$(findstring needs-root,$(call as_owner,$(DESTDIR)$(PREFIX)))" ] || echo "to install it for you alone: make install PREFIX=$(HOME)/.local" >&2
	$(or $(call as_owner,$(DESTDIR)$(PREFIX)),$(if $(GIO),$(call as_owner,$(DESTDIR)$(GIO_MODULES)))) $(MAKE) install-built BUILT="$$($(release) --show-bin-path)" \
	    PREFIX="$(PREFIX)" DESTDIR="$(DESTDIR)" SYSCONFDIR="$(SYSCONFDIR)" STRIP="$(STRIP)" CLIENTS="$(CLIENTS)" HOME="$(HOME)" $(if $(GIO),GIO=yes GIO_MODULES="$(GIO_MODULES)")

# Everything is passed on the command line, because sudo drops make's variables and Swift's path.
# CONNCTL prints the completions. It is another connctl if BUILT is for another architecture.
# Installs system units, or with a PREFIX in a home directory only user units. The configuration is
# installed with system units only.
install-built:
	@root="$(DESTDIR)$(PREFIX)"
	install -d "$$root/bin"
	install $(STRIP) "$(BUILT)"/{connd,connctl} "$$root/bin"
	units() { for unit in systemd/$$1*.*; do sed 's#@bindir@#$(PREFIX)/bin#' "$$unit" | install -D -m 644 /dev/stdin "$$2/$${unit##*/}"; done; }
	if [ -n "$(at_home)" ]; then
	    units user/ "$$root/share/systemd/user"
	else
	    units '' "$$root/lib/systemd/system"
	    units user/ "$$root/lib/systemd/user"
	    install -D -m 644 -t "$$root/lib/sysusers.d" packaging/sysusers.d/*.conf
	    [ -n "$(DESTDIR)" ] || [ ! -d /run/systemd/system ] || systemd-sysusers "$$root/lib/sysusers.d/connd.conf"
	    install -D -m 644 -t "$$root/share/polkit-1/actions" packaging/polkit/*.policy
	    install -D -m 644 -t "$$root/share/polkit-1/rules.d" packaging/polkit/*.rules
	    if [ -n "$(old_polkit)" ]; then
	        echo 'polkit before version 125 reads only /usr/share, so its files are also installed there' >&2
	        install -D -m 644 -t /usr/share/polkit-1/actions packaging/polkit/*.policy
	        install -D -m 644 -t /usr/share/polkit-1/rules.d packaging/polkit/*.rules
	    fi
	    install $(STRIP) "$(BUILT)/connd-multipath" "$$root/bin"
	    for name in connd.yaml multipath.yaml reap.conf; do
	        config="$(DESTDIR)$(SYSCONFDIR)/connd/$$name"
	        [ -e "$$config" ] || install -D -m 644 "config/$$name" "$$config"
	    done
	fi
	# Completion scripts are read by a shell and not run, so they need no #! line.
	completion() { "$(or $(CONNCTL),$(BUILT)/connctl)" completion "$$1" | sed '1{/^#!/d}' | install -D -m 644 /dev/stdin "$$root/share/$$2"; }
	completion bash bash-completion/completions/connctl
	completion zsh zsh/site-functions/_connctl
	completion fish fish/vendor_completions.d/connctl.fish
	for page in man/*.[1-8]; do install -D -m 644 "$$page" "$$root/share/man/man$${page##*.}/$${page##*/}"; done
	install -D -m 644 -t "$$root/share/connd/monitoring" config/monitoring/*
	install -D -m 644 -t "$$root/share/doc/connd" LICENSE packaging/THIRD-PARTY-NOTICES
	if [ -n "$(GIO)" ]; then
	    install -D -m 644 $(STRIP) -t "$(DESTDIR)$(GIO_MODULES)" "$(BUILT)/libgioconnd.so"
	    config="$(DESTDIR)$(SYSCONFDIR)/connd/gio.conf"
	    [ -n "$(at_home)" ] || [ -e "$$config" ] || install -D -m 644 config/gio.conf "$$config"
	    # Packages leave this to a trigger of GLib's package.
	    [ -n "$(DESTDIR)$(at_home)" ] || "$$($(PKG_CONFIG) --variable=gio_querymodules gio-2.0)" "$(GIO_MODULES)"
	fi
	if [ "$(CLIENTS)" = yes ]; then
	    install -D -m 644 -t "$$root/include" clients/c/connd.h
	    install -D -m 644 -t "$$root/share/connd/python" clients/python/{connd.py,pyproject.toml}
	    install -D -m 644 -t "$$root/share/connd/node" clients/node/guard.mjs
	fi
	cd Sources/ConnectivityProtocol/Protos
	find connectivity -name '*.proto' -exec install -D -m 644 {} "$$root/share/connd/proto/{}" \;

.PHONY: uninstall
uninstall: ## stop connd and remove what install has installed, except the configuration, the overrides and the users
	@root="$(DESTDIR)$(PREFIX)"
	# A package under /usr has units of the same names, and files for polkit.
	is_here=$(if $(DESTDIR),,yes)
	[ "$(PREFIX)" = /usr ] || [ ! -e /usr/bin/connd ] || is_here=
	manager() { $(if $(at_home),systemctl --user,$(call as_owner,/etc) systemctl) "$$@" || true; }
	is_running=
	[ -z "$$is_here" ] || [ ! -d /run/systemd/system ] || is_running=yes
	if [ -n "$$is_running" ]; then
	    manager disable --now $(notdir $(shell grep -l '^\[Install\]' $(if $(at_home),systemd/user/*,systemd/*.*)))
	    $(if $(at_home),,manager stop 'connd-metrics@*.service')
	fi
	remove() { $(call as_owner,$(DESTDIR)$(PREFIX)) rm "$$@"; }
	remove -rf "$$root"/bin/{connd,connctl,connd-multipath} "$$root/include/connd.h" "$$root"/share{,/doc}/connd "$$root"/share/polkit-1/{actions,rules.d}/org.connd.* "$$root/lib/sysusers.d/connd.conf" \
	    "$$root"/share/{bash-completion/completions/connctl,zsh/{site-functions,vendor-completions}/_connctl,fish/vendor_completions.d/connctl.fish}
	module="$(DESTDIR)$(GIO_MODULES)/libgioconnd.so"
	[ ! -e "$$module" ] || $(call as_owner,$(DESTDIR)$(GIO_MODULES)) rm "$$module"
	for unit in systemd/*.* systemd/user/*; do
	    remove -f "$$root"/{lib/systemd/system,lib/systemd/user,share/systemd/user}/"$${unit##*/}"
	done
	[ -z "$$is_here" ] || [ -z "$(old_polkit)" ] || $(call as_owner,/usr/share) rm -f /usr/share/polkit-1/{actions/org.connd.policy,rules.d/org.connd.rules}
	for page in man/*.[1-8]; do remove -f "$$root/share/man/man$${page##*.}/$${page##*/}"; done
	for folder in lib/gio{/modules,} {lib,share}/systemd/{system,user} {lib,share}/systemd share/bash-completion{/completions,} \
	    share/zsh/{site-functions,vendor-completions} share/zsh lib/sysusers.d share/polkit-1{/actions,/rules.d,} share/fish{/vendor_completions.d,} share/man/man{1,5,8}; do
	    [ ! -d "$$root/$$folder" ] || [ -L "$$root/$$folder" ] || $(call as_owner,$(DESTDIR)$(PREFIX)) rmdir --ignore-fail-on-non-empty "$$root/$$folder"
	done
	[ -z "$$is_running" ] || manager daemon-reload
	if [ -n "$$is_here" ] && [ -n "$(at_home)" ]; then
	    echo 'These remain: ~/.config/connd and ~/.local/state/connd.'
	elif [ -n "$$is_here" ]; then
	    echo 'The configuration, the overrides and the users remain. To remove them, as root:'
	    echo '    rm -rf $(SYSCONFDIR)/connd /var/lib/connd /var/lib/private/connd; userdel _connd; groupdel connd'
	fi

.PHONY: deb
deb: release release-gio deps-deb ## build the Debian packages in DEB (.build/deb)
	@rm -f "$(DEB)"/connd*.deb
	BUILT="$$($(release) --show-bin-path)" packaging/build "$(DEB)"

.PHONY: dist
dist: release release-gio deps-deb ## make the files of a release in DIST (.build/dist): packages, archive, sources, checksums, contents
	@BUILT="$$($(release) --show-bin-path)" packaging/dist "$(DIST)"

##@ Work on it

.PHONY: build
build: deps ## build everything, with debug information
	@dev/build $(programs) callprobe passedsockets conndPackageTests

.PHONY: release
release: deps ## build the programs to install
	@dev/note-version
	@for program in $(programs); do $(release) --product "$$program"; done

.PHONY: gio release-gio check-gio
gio: deps-gio ## build the module for desktop programs in GIO_BUILD (.build/gio); CFLAGS are added
	@mkdir -p "$(GIO_BUILD)"
	$(CC) $(gio_flags) $(CFLAGS) -o "$(GIO_BUILD)/libgioconnd.so" clients/gio/*.c $$($(PKG_CONFIG) --cflags --libs gio-2.0)

release-gio:
	@$(MAKE) gio GIO_BUILD="$$($(release) --show-bin-path)"

check-gio: deps deps-check-gio gio ## check the module for desktop programs beside GLib's own monitor and curl (GIO_SIZE=full CASES= CONND=)
	@[ -n "$(CONND)" ] || dev/build connd
	$(sudo) Tests/Oracles/gio/run "$(GIO_BUILD)" "$(or $(CONND),$$(dev/swift build --show-bin-path)/connd)" "$(or $(GIO_SIZE),small)" $(CASES)

.PHONY: test test-all test-busy check
# The tests that need neither gRPC's own transport, which is most of the build, nor a server.
small_tests := LinuxSupportTests NetlinkTests ConnectivityTests ConnectivityProtocolTests SystemdTests ConndMultipathTests \
    ConndServerTests ConnctlCommandsTests SimulationTests ScenarioTests
test: deps ## run the tests that need no further packages: all but those of the gRPC client, and with servers
	@dev/install-packages iproute2 iputils-ping less netbase procps python3 tmux
	CONND_TESTS="$(small_tests)" CONND_SIZE=small dev/test

test-all: deps deps-test ## run all tests except those in the VM (installs servers such as PostgreSQL)
	@Tests/Programs/python/setup >/dev/null
	Tests/Programs/examples/build-cpp >/dev/null
	dev/test

.PHONY: build-tests
build-tests: deps ## build all tests and what they start
	@dev/test --build

test-busy: deps deps-test ## run all tests beside a load, and on one processor (TIMES=1)
	@Tests/Programs/python/setup >/dev/null
	Tests/Programs/examples/build-cpp >/dev/null
	Tests/Support/busy/run "$(or $(TIMES),1)"

check: lint check-rules deps ## run the two-minute checks: format, rules, tests without networks
	@CONND_TESTS="$(filter-out SimulationTests ScenarioTests,$(small_tests))" dev/test

.PHONY: check-run
check-run: ## check the output of make run, and that Ctrl-C ends it
	@dev/check-run

.PHONY: check-clients
check-clients: deps deps-test ## check that the clients for C, Python, Node and Go, and connctl guard --stdin, end dead connections only (test-all does, too)
	@Tests/Programs/python/setup >/dev/null
	dev/test --filter '\.(Clients|Coprocess)Scenario'

.PHONY: check-demo
check-demo: deps ## check the last line of make demo, and that it leaves nothing behind
	@dev/check-demo

.PHONY: test-examples
test-examples: deps ## test the Swift examples that need further packages
	@build=(dev/swift build --package-path Examples --scratch-path .build/examples)
	for product in telemetry album-cli examplesPackageTests; do "$${build[@]}" --product "$$product"; done
	"$$("$${build[@]}" --show-bin-path)/examplesPackageTests.xctest" --testing-library swift-testing

.PHONY: test-examples-by-version
test-examples-by-version: deps ## test them as external applications: release builds, with connd as a versioned package
	@Tests/Programs/examples/by-version

.PHONY: check-light
check-light: deps ## check the number of packages and the size of a program that only follows the network
	@Tests/Programs/examples/light

.PHONY: check-go
check-go: deps deps-go ## check the Go package in clients/go, and test it with connd (CONND=)
	@[ -n "$(CONND)" ] || dev/build connd connctl
	clients/go/test "$(or $(CONND),$$(dev/swift build --show-bin-path)/connd)"

.PHONY: test-sanitized
test-sanitized: deps ## run tests under sanitizers, each in a separate build (SANITIZERS=thread address)
	@for sanitizer in $(or $(SANITIZERS),thread address); do Tests/Support/sanitizers/run "$$sanitizer"; done

.PHONY: simulate
simulate: deps ## run connd on a simulated kernel (SEEDS=160 FIRST=1 STEPS=150; or one SEED=; from a RECORDING=)
	@SEEDS="$(SEEDS)" FIRST="$(FIRST)" STEPS="$(STEPS)" SEED="$(SEED)" RECORDING="$(RECORDING)" Tests/Oracles/simulation/run

.PHONY: replay
replay: deps ## replay the recordings of Tests/Fixtures/recordings, and compare with the original output (CONND=)
	@[ -n "$(CONND)" ] || dev/build connd
	Tests/Fixtures/recordings/replay "$(or $(CONND),$$(dev/swift build --show-bin-path)/connd)"

.PHONY: test-vm test-systemd bench-vm record-vm
test-vm: ## run connd in a VM: systemd, the reaper, leases, Wi-Fi, modems, bonds, tunnels, switches, DSL, no IPv6, sleep, other kernels (SCENARIOS= some of them)
test-vm: scenarios := $(or $(SCENARIOS),systemd reap outages policy metering package wifi iwd signal hotspot modems bonds multipath tunnels paths strongswan ipv4only suspend kernels)
test-systemd: ## run the first scenario of test-vm
test-systemd: scenarios := systemd
bench-vm: ## measure in the VM, in instructions, how fast connd reports another Wi-Fi network
bench-vm: scenarios := wireless
record-vm: ## repeat the recordings that need a radio, a modem or a sleep (the others: Tests/Fixtures/recordings/make)
record-vm: scenarios := recordings suspend
record-vm: export KEEP_RECORDINGS := yes
test-vm: deps-deb
bench-vm: deps-bench
test-vm test-systemd bench-vm record-vm: deps vm-image
	@Tests/VM/test "$(VM_IMAGE)" $(scenarios)

.PHONY: vm-image
vm-image: deps-vm ## build the image of the VM, unless VM_IMAGE is up to date (the targets above call this)
	@$(sudo) Tests/VM/build "$(VM_IMAGE)"

.PHONY: nightly
nightly: ## run at full size what .ci/run reduces or leaves out: simulation, truth, soak, storms, VM, figures, applications, sanitizers, fuzzers (hours)
	@.ci/run nightly

.PHONY: fuzz
fuzz: deps deps-test ## fuzz the parsers of netlink, settings, messages, overrides, the bus and frames (SECONDS=600 for each, TARGETS=)
	@Tests/Oracles/fuzz/run "$(or $(SECONDS),600)" $(TARGETS)

.PHONY: storms
storms: deps deps-test ## run the storms of kernel messages at full size (make bench measures their cost)
	@CONND_STORMS=full dev/test --filter 'OverrunScenario|StormsScenario|ChurnScenario.containers'

.PHONY: races
races: deps deps-test ## race 10,000 connections over a link with random loss, and count the requests
	@CONND_RACES=100 dev/test --filter OtherWayScenario.races

.PHONY: stalls
stalls: deps deps-test ## make second calls on 20 channels, 0.25 to 5 s after a Wi-Fi began to lose 60 or 100 %, and print how long they took
	@CONND_STALLS=20 TEST_LIMIT=1h dev/test --filter StallScenario

.PHONY: multipath
multipath: deps deps-test ## repeat the scenarios of lost links and costs under Multipath TCP (TIMES=20)
	@CONND_TIMES="$(or $(TIMES),20)" SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH=1 dev/test --filter EndpointLossScenario

.PHONY: timings
timings: deps deps-test ## run the scenarios that have goals for durations, one after another, and check the goals
	@CONND_TIMINGS=yes SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH=1 dev/test --filter 'OtherWayScenario|StallScenario|EndpointsScenario|EndpointLossScenario|NamesScenario|ChannelLifecycleScenario|RouterAdvertisementScenario'

.PHONY: limps
limps: deps deps-test ## run seventeen troubles, those without a limp for minutes, and see that only a bad Wi-Fi limps (SECONDS=280 for each)
	@CONND_LIMPS=$(or $(SECONDS),280) TEST_LIMIT=2h dev/test --filter LimpScenario

.PHONY: outages
outages: deps deps-test ## measure how soon connections continue after outages, with and without the options for that (SECONDS="30 120")
	@CONND_OUTAGES="$(or $(SECONDS),30 120)" TEST_LIMIT=1h dev/test --filter OutageScenario

.PHONY: soak
soak: deps deps-test ## change a network at random, and look for lost events and leaks (SECONDS=3600 SEED= CONND=)
	@[ -n "$(CONND)" ] || dev/build connd
	Tests/Programs/python/setup >/dev/null
	$(sudo) Tests/Oracles/soak/run "$(or $(CONND),$$(dev/swift build --show-bin-path)/connd)" "$(or $(SECONDS),3600)" "$(SEED)"

.PHONY: truth
truth: deps deps-test ## compare connd, and connctl reap or connctl run --guard, with real traffic in random networks (STEPS=1000 WORLDS=2 SEED= SCRIPT= REAPER= CONND=)
	@[ -n "$(CONND)" ] || dev/build connd connctl
	Tests/Programs/python/setup >/dev/null
	$(sudo) env STEPS="$(STEPS)" WORLDS="$(WORLDS)" SEED="$(SEED)" SCRIPT="$(SCRIPT)" SHORTEN="$(SHORTEN)" REAPER="$(REAPER)" \
	    Tests/Oracles/truth/run "$(or $(CONND),$$(dev/swift build --show-bin-path)/connd)"

.PHONY: reach
reach: deps deps-reach ## pull a cable under unchanged programs that connctl guards (REACH=quick, or names of cases; CONND= GUARD=)
	@[ -n "$(CONND)" ] || dev/build connd connctl
	connd="$(or $(CONND),$$(dev/swift build --show-bin-path)/connd)"
	$(sudo) Tests/Oracles/reach/run "$$connd" --guard "$(or $(GUARD),$$(dirname "$$connd")/connctl run --guard --)" $(REACH)

.PHONY: adversary
.PHONY: why
why: deps deps-test ## cause random faults, check that no verdict of connctl why is wrong, and count the verdicts (TIMES=1000 SEED=)
	@CONND_WHY="$(or $(TIMES),1000)" CONND_SEED="$(or $(SEED),$$RANDOM)" TEST_LIMIT=12h \
	    SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH=4 dev/test --filter WhyTruthScenario >.build/why || { cat .build/why; exit 1; }
	sed -n 's/^why: \([a-zA-Z]*\),.*/\1/p' .build/why | sort | uniq -c | sort -rn

adversary: release deps-test deps-bench ## attack connd in all ways at once, as many users, with its unit's limits (ROUNDS=200 TIMES=1; TIMES=each: one attack after the other)
	@$(sudo) Tests/Oracles/storms/adversary "$$($(release) --show-bin-path)" "$(or $(ROUNDS),200)" "$(or $(TIMES),1)"

.PHONY: check-instructions instructions
check-instructions: release deps-bench ## fail if a change costs a tenth more instructions than committed
	@dev/install-packages iproute2
	@Tests/Bench/instructions "$$($(release) --show-bin-path)"

instructions: release deps-bench ## commit the present number of instructions of a change
	@Tests/Bench/instructions "$$($(release) --show-bin-path)" update

.PHONY: check-sizes
check-sizes: release ## check that README names the sizes of the installed programs
	@dev/check-sizes "$$($(release) --show-bin-path)"

.PHONY: notices check-notices
notices: release ## write the licences of all software in the programs to packaging/THIRD-PARTY-NOTICES and debian/copyright
	@dev/install-packages python3
	packaging/notices "$$($(release) --show-bin-path)"

check-notices: release ## check these files, and that each licence is known
	@dev/install-packages python3
	packaging/notices --check "$$($(release) --show-bin-path)"

.PHONY: bench
bench: release deps-test deps-bench ## measure speed and memory, also in storms (BENCH=--quick for less; APPLICATIONS= the directory that test-examples-by-version built)
	@$(release) --product instructions
	$(sudo) env APPLICATIONS="$(APPLICATIONS)" Tests/Bench/run "$$($(release) --show-bin-path)" $(BENCH)
	$(sudo) Tests/Bench/growth/run "$$($(release) --show-bin-path)" $(if $(BENCH),1 10)
	$(sudo) Tests/Oracles/storms/run "$$($(release) --show-bin-path)" $(if $(BENCH),500 20000)
	$(if $(BENCH),,$(sudo) Tests/Oracles/storms/adversary "$$($(release) --show-bin-path)" 100 each)
	$(sudo) Tests/Oracles/storms/adversary "$$($(release) --show-bin-path)" $(if $(BENCH),20)

.PHONY: bench-peers
bench-peers: release deps-bench deps-peers ## measure networkd, NetworkManager, ConnMan, GNetworkMonitor, ip monitor and connd side by side (BENCH=--quick for less)
	@$(sudo) Tests/Bench/peers/run "$$($(release) --show-bin-path)" $(BENCH)

.PHONY: update
update: ## update the packages that connd is built from (Package.resolved)
	@rm -f Package.resolved
	dev/build connd

.PHONY: lint
lint: ## check the format and the size of the sources, and the English of all prose
	@$(sources) | xargs swift format lint --strict --parallel
	@! grep -rnE --include='*.swift' '\.blocking.*\.timeLimit' Tests || { echo 'a time limit would count the wait for a thread that may block' >&2; exit 1; }
	@dev/check-english
	@dev/check-shape

.PHONY: check-rules
check-rules: ## check that each rule has a source and a test, and the index of the rules
	@dev/check-rules

.PHONY: check-api
check-api: deps deps-test ## check that the public API of the libraries matches Tests/Fixtures/api
	@dev/check-api

.PHONY: check-docs
check-docs: deps deps-test ## check that DocC has no warning about the documentation of the libraries
	@dev/check-docs

.PHONY: api
api: deps deps-test ## write the public API of the libraries to Tests/Fixtures/api
	@dev/check-api update

.PHONY: check-fresh
check-fresh: deps-vm ## check on a fresh Debian that each target installs what it needs (WITHOUT= a package, to see it fail)
	@$(sudo) Tests/Support/fresh/run $(WITHOUT)

.PHONY: check-newcomer
check-newcomer: deps-vm ## run make run and make test in a fresh Debian, and print how long they take
	@$(sudo) env PATH="$$PATH" Tests/Support/fresh/newcomer

.PHONY: check-package
check-package: dist deps-test deps-vm ## check DIST: the list of contents, the package and the archive in a minimal Debian (also a substitute for arm64)
	@"$$(Tests/Programs/python/setup)/bin/python" -B Tests/Programs/python/contents.py "$(DIST)"/*.cdx.json
	$(sudo) Tests/Support/fresh/package "$$($(release) --show-bin-path)" "$(DIST)"

.PHONY: check-source
check-source: dist deps-deb ## compile the Debian source package in DIST without a network
	@dev/check-source "$(DIST)"

.PHONY: lint-units
lint-units: deps-units ## check the systemd units and their sandbox, and the man pages
	@dev/check-units
	mandoc -T lint -W warning man/*.[1-8]

.PHONY: format
format: ## format the sources
	@$(sources) | xargs swift format --in-place --parallel

.PHONY: generate
generate: deps deps-protobuf ## generate code from the .proto files
	@dev/generate-protobuf.sh

.PHONY: check-generated
check-generated: deps deps-protobuf ## check that the generated code matches the .proto files, which break no client of the last tag
	@dev/check-protocol
	dev/generate-protobuf.sh --check

.PHONY: clean
clean: ## remove everything that was built
	@dev/swift package clean
	rm -rf .venv
	find . -name __pycache__ -prune -exec rm -rf {} +

##@ System packages (the targets above call these)

.PHONY: deps deps-gio deps-check-gio deps-test deps-go deps-reach deps-bench deps-peers deps-protobuf deps-units deps-deb deps-vm
deps: ## install the packages for building
	@dev/install-packages $(build_packages)
deps-gio: ## install the packages for building the module for desktop programs
	@dev/install-packages $(gio_packages)
deps-check-gio: ## install the packages for checking that module
	@dev/install-packages $(gio_packages) $(gio_test_packages)
deps-test: ## install the packages for testing
	@dev/install-packages $(test_packages)
deps-go: ## install the packages for testing the Go package
	@dev/install-packages $(go_test_packages)
deps-reach: ## install the programs that make reach runs
	@dev/install-packages $(reach_packages)
deps-bench: ## install the packages for benchmarks
	@dev/install-packages $(bench_packages)
deps-peers: ## install the packages for the comparison with other programs, but not these
	@dev/install-packages $(peers_packages)
deps-protobuf: ## install the packages for generating code
	@dev/install-packages $(protobuf_packages)
deps-units: ## install the packages for checking the units and the man pages
	@dev/install-packages $(unit_packages)
deps-deb: ## install the packages for packaging
	@dev/install-packages $(deb_packages)
deps-vm: ## install the packages for the VM
	@dev/install-packages $(vm_packages)
