# Every target sets up what it needs; a second run skips what is done.
SHELL := /bin/bash
PY := .venv/bin/python

PREFIX ?= /usr/local
# Tests at once, of those that allow it (RUN_SERIAL measures, PROCESSORS 3 are several ranks). Most wait, for a disk or
# for a limit, so that four keep two processors busy. COST says what is begun first.
JOBS ?= 4

.PHONY: run acceptance test test-slurm build bench bench-nodes bench-compare install uninstall lint asan tsan fuzz torture clean setup test-setup run-room

# $(call step,COMMAND) runs what prints nothing but why it failed, and makes that the last line that make prints.
step = $(call stop_unless_done,$(shell $(1)))
stop_unless_done = $(if $(filter-out 0,$(.SHELLSTATUS)),$(error $(1)))

# The tier comparison here, or on a site: make run SITE=FILE.
run: run-room build
	SITE=$(SITE) ci/run-webinar

# The acceptance recipes on twins, judged; about ten minutes. Exit status for CI.
acceptance: run-room build
	ci/run-acceptance

test: test-setup build
	ctest --test-dir build -j $(JOBS) --output-on-failure --timeout 300
	$(PY) -m pytest -n 3 --dist loadfile --no-loadscope-reorder analysis/tests adapters/trace/tests ci/tests engine/tests/torture reframe_tests/tests
	ci/run-smoke
	$(MAKE) fuzz SECONDS=12

# The acceptance recipes under a real Slurm of two nodes on this machine, one tierd a node. Needs root.
test-slurm: build
	@$(call step,ci/bootstrap slurm)
	ci/run-slurm
	ci/run-slurm -S nodes_see=shared -P tiers=bb-nvme-ram

test-setup:
	@$(call step,ci/bootstrap test)

setup:
	@$(call step,ci/bootstrap)

# Refused before the build, not by each row after it.
run-room:
	@$(call step,ci/setup/preflight run)

build: setup
	@cmake --preset default $(if $(wildcard build/CMakeCache.txt),> /dev/null)
	@cmake --build --preset default

bench: build
	$(PY) engine/bench/bench.py
	$(PY) engine/bench/fresh.py
	$(PY) engine/bench/many.py
	$(PY) engine/bench/promises.py
	$(PY) engine/bench/copies.py
	$(PY) engine/bench/costs.py
	$(PY) engine/bench/organizer.py
	$(PY) engine/bench/names.py
	$(PY) engine/bench/staging.py
	$(PY) engine/bench/forwarding.py
	$(PY) engine/bench/model.py
	$(PY) engine/bench/trace.py

# What the network between nodes costs, beside a raw socket and fi_pingpong (docs/nodes.md).
bench-nodes: build
	$(PY) engine/bench/nodes.py

# Exits 1 where this tree is significantly slower than another commit: make bench-compare BASE=<commit> [ONLY=word] [N=7]
bench-compare: build
	$(PY) engine/bench/compare_trees.py --base $(or $(BASE),$(error BASE=<commit> is needed)) $(if $(ONLY),--only "$(ONLY)") \
	  $(if $(N),--repetitions $(N))

# DESTDIR: below another root, for packages.
install: build
	@$(PY) ci/install.py build $(PREFIX) $(DESTDIR)

# What the manifest of `make install` lists, and nothing else. Needs no build.
uninstall:
	@python3 ci/install.py --remove $(PREFIX) $(DESTDIR)

# The drivers against the real programs, where a site has them: make compare-drivers IOR=... MDTEST=...
compare-drivers: build
	@mkdir -p results/bench
	$(PY) workloads/tools/compare_drivers.py $(if $(IOR),--ior $(IOR)) $(if $(MDTEST),--mdtest $(MDTEST)) --out results/bench/drivers.md

# Files, exit status and columns of generated option sets: make sweep-drivers IOR=... MDTEST=... SETS=50 SEED=1
sweep-drivers: build
	$(PY) workloads/tools/sweep_drivers.py $(if $(IOR),--ior $(IOR)) $(if $(MDTEST),--mdtest $(MDTEST)) $(if $(SETS),--sets $(SETS)) $(if $(SEED),--seed $(SEED))

# Hours: ci/torture says which parts there are.  HOURS=N: the oracle farm alone, for N hours.  RECORD=1: the totals of this run
# are kept in docs/reliability.md; else they are in build/reliability.md.
torture: test-setup build
	@$(call step,ci/bootstrap torture)
	$(if $(RECORD),TB_RECORD=docs/reliability.md) $(if $(HOURS),TB_HOURS=$(HOURS)) ci/torture $(if $(HOURS),farm)

# Tests of two parts may have the same names, so each part is a run of mypy.
PYTHON_PARTS := adapters analysis ci/install.py ci/tests configs docs engine/bench engine/tests/fuzz engine/tests/guests engine/tests/integration engine/tests/net engine/tests/power \
	engine/tests/shared engine/tests/stage engine/tests/stress engine/tests/torture reframe_tests workloads

lint: setup
	@$(call step,ci/bootstrap lint)
	.venv/bin/ruff check . && .venv/bin/ruff format --check .
	git ls-files '*.c' '*.h' | xargs .venv/bin/clang-format --dry-run -Werror
	for part in $(PYTHON_PARTS); do echo "mypy $$part"; .venv/bin/mypy $$part || exit 1; done
	cmake --preset clang > /dev/null && cmake --build --preset clang

# The daemon and tierctl too; unmodified programs can't load a sanitizer, so they get the plain preload library.
asan: build
	cmake --preset asan > /dev/null && cmake --build --preset asan
	ctest --test-dir build-asan -j 2 --output-on-failure -LE 'mpi|preload' --timeout 600
	$(PY) engine/tests/stress/processes.py build-asan/bin build/lib

tsan: setup
	cmake --preset tsan > /dev/null && cmake --build --preset tsan
	ctest --test-dir build-tsan -j 2 --output-on-failure -LE 'mpi|preload' --timeout 600

# Fuzzing with coverage, SECONDS a target, two at a time: what is new stays in build-fuzz/corpus, findings in build-fuzz/bin/findings.
fuzz: setup
	@$(call step,ci/bootstrap fuzz)
	cmake --preset fuzz > /dev/null && cmake --build --preset fuzz
	$(PY) engine/tests/fuzz/run.py build-fuzz/bin --seconds $(or $(SECONDS),20) --keep build-fuzz/corpus

clean:
	rm -rf build build-asan build-tsan build-clang build-fuzz stage output
