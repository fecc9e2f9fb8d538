#!/bin/sh
# Packs dlhook for other machines, into build/packages. Prints the files it made.
#
#   scripts/package.sh [--from BUILD] [--out FOLDER] wheel    for pip: the command, libdlhook.so, `import dlhook`
#   scripts/package.sh [--from BUILD] [--out FOLDER] deb      for Debian and Ubuntu, the same
#   scripts/package.sh [--from BUILD] [--out FOLDER] tar      for any folder, the same
#
# Without --from it builds the preset `product` first, which needs no library but glibc 2.34. SOURCE_DATE_EPOCH (default: the time of
# the last commit) is the time of all files; the same sources give the same bytes. DEBFULLNAME and DEBEMAIL are the maintainer of the .deb.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/scripts/lib.sh"

build=
out=$root/build/packages
kinds=
while [ "$#" -gt 0 ]; do
  case $1 in
    --from) build=$(cd "$2" && pwd); shift ;;
    --out) mkdir -p "$2"; out=$(cd "$2" && pwd); shift ;;
    wheel | deb | tar) kinds="$kinds $1" ;;
    -h | --help) sed -n '2,/^set /s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) die "unknown argument: $1 (see --help)" ;;
  esac
  shift
done
[ -n "$kinds" ] || die "expected wheel, deb or tar (see --help)"

: "${SOURCE_DATE_EPOCH:=$(git -C "$root" log -1 --format=%ct 2>/dev/null || echo 315532800)}"
export SOURCE_DATE_EPOCH
if [ -z "$build" ]; then
  "$root/scripts/build.sh" product
  build=$root/build/product
fi
staging=$(mktemp -d)
trap 'rm -rf "$staging"' EXIT
mkdir -p "$out"
umask 022

# What is linked into the command, by the Debian package whose copyright file has the licence.
linked="libabsl-dev libbz2-dev libdw-dev liblzma-dev libprotobuf-dev libsqlite3-dev libstdc++6 libzstd-dev rapidjson-dev
  zlib1g-dev"

# install_to PREFIX: as cmake --install, with the licences of everything inside.
install_to() {
  quietly "install" cmake --install "$build" --prefix "$1" --strip
  licences=$1/share/doc/dlhook/licences
  mkdir -p "$licences"
  cp "$root/LICENSE" "$licences/dlhook.txt"
  cp "$root/web/licences.txt" "$licences/page.txt"
  if grep -q '^DLHOOK_SELF_CONTAINED:.*=ON' "$build/CMakeCache.txt"; then
    for library in $linked; do cp "/usr/share/doc/$library/copyright" "$licences/$library.txt"; done
  fi
  version=$("$1/bin/dlhook" --version | cut -d ' ' -f 2)
}

# python_to FOLDER: the package for `import dlhook`, without compiled files.
python_to() {
  mkdir -p "$1/dlhook"
  cp "$root"/python/dlhook/*.py "$root"/python/dlhook/*.sql "$root/python/dlhook/py.typed" "$1/dlhook"
}

wheel() {
  install_to "$staging/wheel"
  python3 -B "$root/scripts/make_wheel.py" "$staging/wheel" "$out"
}

same_times() { find "$1" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +; }

tarball() {
  install_to "$staging/tar/dlhook"
  python_to "$staging/tar/dlhook/share/dlhook/python"
  name=dlhook-$version-linux-x86_64
  mv "$staging/tar/dlhook" "$staging/tar/$name"
  same_times "$staging/tar"
  tar -C "$staging/tar" --sort=name --owner=0 --group=0 --numeric-owner -c "$name" | gzip -6n >"$out/$name.tar.gz"
  echo "$out/$name.tar.gz"
}

# Debian packages of the shared libraries that the programs need.
depends() {
  for program; do ldd "$program"; done | sed -n 's/^.*=> .*\(\/[^ ]*\) .*$/*\1/p' | sort -u | xargs dpkg-query -S | sed 's/:.*//' |
    sort -u | sed 's/^libc6$/libc6 (>= 2.34)/' | paste -s -d , | sed 's/,/, /g'
}

deb() {
  tree=$staging/deb
  install_to "$tree/usr"
  python_to "$tree/usr/lib/python3/dist-packages"
  documents=$tree/usr/share/doc/dlhook
  maintainer="${DEBFULLNAME:-The dlhook developers} <${DEBEMAIL:-dlhook@localhost.localdomain}>"
  mkdir -p "$tree/DEBIAN" "$tree/usr/share/lintian/overrides"
  cat >"$tree/DEBIAN/control" <<END
Package: dlhook
Version: $version
Architecture: amd64
Maintainer: $maintainer
Installed-Size: $(du -sk "$tree/usr" | cut -f 1)
Depends: $(depends "$tree/usr/bin/dlhook" "$tree/usr/lib/libdlhook.so")
Suggests: python3 (>= 3.9)
Section: devel
Priority: optional
Description: profiler for programs that train or serve neural networks
 dlhook runs an unmodified program and reports what each layer of its
 network costs, forward and backward, which algorithms the math libraries
 chose, what is copied to the GPU and what could be faster. It observes
 PyTorch, TensorFlow, BLAS, oneDNN, CUDA, cuBLAS, cuDNN and NCCL.
END
  { echo "dlhook is under the Apache License 2.0: /usr/share/common-licenses/Apache-2.0"
    for text in "$documents"/licences/*; do
      case $text in */dlhook.txt) continue ;; esac
      printf '\n\n==== %s ====\n\n' "$(basename "$text" .txt)"
      cat "$text"
    done; } >"$documents/copyright"
  rm -r "$documents/licences" "$documents/LICENSE"
  printf 'dlhook (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n\n -- %s  %s\n' "$version" "$maintainer" \
    "$(LC_ALL=C date -u -R -d "@$SOURCE_DATE_EPOCH")" >"$documents/changelog"
  cat >"$tree/usr/share/lintian/overrides/dlhook" <<END
# It is preloaded by its path and never linked to.
dlhook: sharedobject-in-library-directory-missing-soname [usr/lib/libdlhook.so]
# One program for all releases: what it needs besides glibc is in it.
dlhook: embedded-library * [usr/bin/dlhook]
END
  if [ -z "${DEBEMAIL:-}" ]; then
    cat >>"$tree/usr/share/lintian/overrides/dlhook" <<'END'
# Nobody was named: packed without DEBEMAIL.
dlhook: bogus-mail-host Maintainer *
dlhook: bogus-mail-host-in-debian-changelog *
END
  fi
  # As dh_python3: what root's Python compiles beside the modules belongs to the package, or would stay behind it.
  cat >"$tree/DEBIAN/postinst" <<'END'
#!/bin/sh
set -e
if command -v py3compile >/dev/null 2>&1; then py3compile -p dlhook; fi
END
  cat >"$tree/DEBIAN/prerm" <<'END'
#!/bin/sh
set -e
if command -v py3clean >/dev/null 2>&1; then py3clean -p dlhook
else rm -rf /usr/lib/python3/dist-packages/dlhook/__pycache__; fi
END
  chmod 755 "$tree/DEBIAN/postinst" "$tree/DEBIAN/prerm"
  gzip -9n "$documents/changelog" "$tree/usr/share/man/man1/dlhook.1"
  (cd "$tree" && find usr -type f -exec md5sum {} + | LC_ALL=C sort -k 2) >"$tree/DEBIAN/md5sums"
  same_times "$tree"
  dpkg-deb --root-owner-group -Zxz -z1 -b "$tree" "$out/dlhook_${version}_amd64.deb" >/dev/null
  echo "$out/dlhook_${version}_amd64.deb"
}

for kind in $kinds; do
  case $kind in
    tar) tarball ;;
    *) "$kind" ;;
  esac
done
