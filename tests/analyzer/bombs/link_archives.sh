#!/bin/sh
# Links as the command's other words say, with the archive beside each shared library in its place. Used by CMakeLists.txt.
for word; do
  case $word in /*.so | /*.so.*) word=${word%%.so*}.a ;; esac
  set -- "$@" "$word"
  shift
done
exec "$@" -l:libz.a -l:libbz2.a -l:liblzma.a # which a shared libdw brings along
