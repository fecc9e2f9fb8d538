#!/bin/sh
# Installs what dlhook needs, on Debian 12. Safe to run again: what is already installed is left alone.
#
#   scripts/setup.sh                what building needs: a compiler, CMake and libraries, from Debian's packages (root, or sudo
#                                   without a password)
#   scripts/setup.sh --demo         also what scripts/demo.sh and most examples need: PyTorch and scikit-learn of
#                                   scripts/requirements.txt in a virtual environment, build/venv (or $DLHOOK_VENV)
#   scripts/setup.sh --test         also what building the tests and running those without frameworks needs: GoogleTest, BLAS in all its
#                                   builds, Fortran, Java, programs to preload, linters (build/venv-lint), readers of exports
#                                   (build/venv-exports, or $DLHOOK_EXPORTS_VENV; 450 MB)
#   scripts/setup.sh --frameworks   also what the framework tests need: all of --demo, Debian's NumPy and SciPy, Keras in build/venv, and
#                                   requirements-{cuda,nvidia,tensorflow,mxnet}.txt in build/venv-cuda ($DLHOOK_CUDA_VENV),
#                                   build/venv-nvidia ($DLHOOK_NVIDIA_VENV), build/venv-tensorflow ($DLHOOK_TENSORFLOW_VENV) and
#                                   build/venv-mxnet ($DLHOOK_MXNET_VENV): 7 GB
#   scripts/setup.sh --docs         also Sphinx in build/venv-lint, for scripts/docs.sh (120 MB)
#   scripts/setup.sh --debian-torch also Debian's PyTorch (165 MB to load, 0.8 GB on disk, minutes)
#   scripts/setup.sh --peers        also the tracers that scripts/bench.sh --peers compares with
#
# Prints a line on stderr for each stage, and more only if it fails.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/scripts/lib.sh"

# libdw (with bz2 and lzma): symbols of native stacks; zlib: compressed exports; rapidjson and libzstd: traces of torch.profiler;
# libsqlite3: exports as a database; esbuild and d3: the page of web/.
packages="cmake ninja-build gcc g++ protobuf-compiler libprotobuf-dev libabsl-dev nlohmann-json3-dev libdw-dev zlib1g-dev libbz2-dev liblzma-dev libsqlite3-dev
  rapidjson-dev libzstd-dev python3 esbuild node-d3-axis node-d3-hierarchy node-d3-scale node-d3-selection node-d3-shape node-d3-zoom"

# BLAS in all its builds, reference LAPACK, oneDNN, Fortran and Java are for the victims of tests/preload_e2e.
test_packages="libgtest-dev libgmock-dev gfortran libopenblas-dev liblapack-dev libdnnl-dev
  libopenblas0-openmp libopenblas0-serial libblis4-openmp libblis4-pthread libblis4-serial libblas3 openjdk-17-jdk-headless"
# Small programs that tests/preload_e2e/test_programs.py runs preloaded; others that it knows are skipped if missing.
test_packages="$test_packages busybox redis-server sqlite3 strace tmux"
test_packages="$test_packages musl-tools"  # a program of another C library, in tests/preload_e2e/test_hosts.py
test_packages="$test_packages libunwind-dev libpapi-dev"  # for tests/testing_shim; what the shim opens at run time if it is there
test_packages="$test_packages libdebuginfod1 xz-utils"  # the forms of debug information used in tests/analyzer/symbols
test_packages="$test_packages valgrind"  # callgrind_annotate reads what `dlhook export` writes
test_packages="$test_packages libjemalloc2 libtcmalloc-minimal4"  # preloaded in tests/preload_e2e/test_sanitizers.py
test_packages="$test_packages papi-tools linux-perf"  # reports what can be counted, in
                                                      # tests/preload_e2e/test_counters_command.py
test_packages="$test_packages clang-format shellcheck"  # for scripts/lint.sh
test_packages="$test_packages mold"  # links the unit tests
test_packages="$test_packages chromium"  # opens the pages in tests/web
test_packages="$test_packages mandoc"  # checks the man page in tests/preload_e2e/test_manual.py

peer_packages="lttng-tools liblttng-ust-dev babeltrace2 uftrace ltrace"

missing_packages() {
  for package in $packages; do
    case $(dpkg-query -W -f '${Status}' "$package" 2>/dev/null) in
      *" installed") ;;
      *) printf '%s ' "$package" ;;
    esac
  done
}

apt() {
  if [ "$(id -u)" = 0 ]; then as_root=; else as_root="sudo -n"; fi
  # Waits for the lock: another apt may be running (unattended upgrades on fresh machines).
  $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=300 "$@"
}

install_packages() {
  missing=$(missing_packages)
  [ -n "$missing" ] || return 0
  command -v apt-get >/dev/null ||
    die "no apt-get here; please install the equivalents of: $missing"
  quietly "apt-get update" retry apt update
  # shellcheck disable=SC2086  # a list of words
  quietly "apt-get install $missing" retry apt install --no-install-recommends $missing
}

# A virtual environment needs ensurepip, which some python3 lack; Debian's has it once python3-venv is installed.
venv_python() {
  for candidate in "${PYTHON:-python3}" /usr/bin/python3; do
    if "$candidate" -c 'import ensurepip, venv' 2>/dev/null; then
      echo "$candidate"
      return 0
    fi
  done
  die "no Python that can make a virtual environment"
}

# install_venv FOLDER REQUIREMENTS PIP_OPTIONS…
install_venv() {
  venv=$1
  requirements=$root/scripts/$2
  stamp="$venv/.dlhook-$2"
  shift 2
  if cmp -s "$requirements" "$stamp"; then return 0; fi
  python=$(venv_python)
  [ -x "$venv/bin/python" ] || quietly "virtual environment in ${venv#"$root"/}" "$python" -m venv "$venv"
  quietly "pip install of ${requirements#"$root"/} ($(grep -c == "$requirements") packages) into ${venv#"$root"/}" \
    retry "$venv/bin/python" -m pip install -q --disable-pip-version-check "$@" -r "$requirements"
  cp "$requirements" "$stamp"
}

for_demo() { install_venv "${DLHOOK_VENV:-$root/build/venv}" requirements.txt; }

for_tests() {
  install_venv "${DLHOOK_LINT_VENV:-$root/build/venv-lint}" requirements-lint.txt
  install_venv "${DLHOOK_EXPORTS_VENV:-$root/build/venv-exports}" requirements-exports.txt --no-deps
}

for_docs() { install_venv "${DLHOOK_LINT_VENV:-$root/build/venv-lint}" requirements-docs.txt --no-deps; }

for_frameworks() {
  for_demo
  install_venv "${DLHOOK_VENV:-$root/build/venv}" requirements-keras.txt
  install_venv "${DLHOOK_CUDA_VENV:-$root/build/venv-cuda}" requirements-cuda.txt --no-deps
  install_venv "${DLHOOK_NVIDIA_VENV:-$root/build/venv-nvidia}" requirements-nvidia.txt --no-deps
  install_venv "${DLHOOK_TENSORFLOW_VENV:-$root/build/venv-tensorflow}" requirements-tensorflow.txt --no-deps
  install_venv "${DLHOOK_MXNET_VENV:-$root/build/venv-mxnet}" requirements-mxnet.txt --no-deps
}

environments=
for argument; do
  case $argument in
    --demo) packages="$packages python3-venv"; environments="$environments for_demo" ;;
    --test) packages="$packages python3-venv $test_packages"; environments="$environments for_tests" ;;
    --frameworks)
      packages="$packages python3-venv python3-numpy python3-scipy"
      environments="$environments for_frameworks"
      ;;
    --docs) packages="$packages python3-venv"; environments="$environments for_docs" ;;
    --debian-torch) packages="$packages python3-torch" ;;
    --peers) packages="$packages $peer_packages" ;;
    -h | --help) sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) die "unknown argument: $argument (see --help)" ;;
  esac
done
install_packages
for environment in $environments; do "$environment"; done
