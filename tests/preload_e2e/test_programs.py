"""Ordinary programs, preloaded: output, exit code and the files they create are the same as without dlhook, and dlhook
leaves no file behind. None of them makes a call that dlhook records, but all load it, fork, thread, exec and end with
it inside.

Each is a script for /bin/sh in an empty folder, the same one each time, so that only process ids and times need to be
normalised, which the scripts do themselves. Programs that are not installed are skipped by name.
"""

import collections
import hashlib
import os
import shutil
import stat
import subprocess
import sys

import e2e

# needs: commands, the script's programs other than Debian's essential ones.
Program = collections.namedtuple("Program", "name needs script stdin")


def program(name, script, needs="", stdin=b""):
    return Program(name, needs.split(), script.strip(), stdin)


POSTGRES_BASE = "/usr/lib/postgresql"
# Lines that the scripts work on.
LINES = "seq 1 3000 | sed 's/$/ some words to chew on/' > lines"

GIT = """
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b
export GIT_AUTHOR_DATE='1700000000 +0000' GIT_COMMITTER_DATE='1700000000 +0000' GIT_CONFIG_NOSYSTEM=1
git init -q -b main one && cd one && seq 500 > file && git add file && git commit -q -m first
sed -i 's/7/seven/' file && git diff --stat && git commit -q -a -m second && git log --oneline -p | head -30
cd .. && git clone -q one two && cd two && git fsck --strict && git log --format=%H && git blame file | tail -3 && cd \
.. && rm -rf one two
"""

MAKE = """
printf 'all: a b c d\\n\\t@cat a b c d\\na b c d:\\n\\t@sleep 0.0$$(printf %%d "'"'"'$@"); echo $@ > $@\\n' > Makefile
make -s -j4 && make -n -B && make -s missing; echo $?
"""

GCC = """
printf '#include <stdio.h>\\nint twice(int);\\nint main(void) { printf("%d\\\\n", twice(21)); return 3; }\\n' > main.c
printf 'int twice(int x) { return 2 * x; }\\n' > twice.c
gcc -O2 -c main.c twice.c && ar rcD libtwice.a twice.o && gcc -o program main.o -L. -ltwice && ./program; echo $?
gcc -c missing.c; echo $?; nm twice.o && objdump -d twice.o | tail -3 && readelf -h program | head -5 && strip \
program && ./program; echo $?
"""

CMAKE = """
printf 'cmake_minimum_required(VERSION 3.20)\\nproject(p NONE)\\nfile(GLOB f *.txt)\\nlist(LENGTH f \
n)\\nmessage(STATUS "${n}")\\n' > CMakeLists.txt
printf 'execute_process(COMMAND echo child OUTPUT_VARIABLE o)\\nmessage("${o}")\\nmath(EXPR x \
"6*7")\\nmessage("${x}")\\n' > s.cmake
cmake -P s.cmake && cmake -S . -B out | grep -v 'seconds\\|(' && rm -rf out
"""

PERL = """
perl -e 'my $p = fork; if (!$p) { print "child\\n"; exit 3 } waitpid $p, 0; print $? >> 8, "\\n";
$SIG{ALRM} = sub { print "alarm\\n"; exit 4 }; alarm 1; print join(",", sort { $b <=> $a } map { $_ * 7 % 11 } \
1..10), "\\n"; 1 while 1'
"""

NODE = """
node -e 'const { Worker, isMainThread } = require("worker_threads"), { execSync } = require("child_process"), z = \
require("zlib");
console.log(execSync("echo from a child").toString().trim(), z.gunzipSync(z.gzipSync("round trip")).toString());
require("crypto").pbkdf2("secret", "salt", 1000, 16, "sha256", (error, key) => console.log(key.toString("hex")));
new Worker("require(\\"worker_threads\\").parentPort.postMessage(6 * 7)", { eval: true }).on("message", m => { \
console.log(m); process.exitCode = 5; });'
"""

POSTGRES = """
bin=$(ls -d /usr/lib/postgresql/*/bin | tail -1); mkdir db && chown 65534:65534 db && cd db
as() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
as $bin/initdb -N -A trust -U me --locale=C -E UTF8 -D data > initdb.log 2>&1 || cat initdb.log
as $bin/pg_ctl -s -w -D data -o "-c listen_addresses='' -k $PWD -c fsync=off -c shared_buffers=1MB" -l log start
as $bin/psql -h $PWD -U me -d postgres -At -c 'create table t as select g, g * g as s from generate_series(1, 5000) \
g' \\
  -c 'select count(*), sum(s) from t' -c 'set max_parallel_workers_per_gather = 2' -c 'select no_such_column from t'
echo $?; as $bin/pg_ctl -s -w -m fast -D data stop; echo $?; cd .. && rm -rf db
"""

REDIS = """
redis-server --port 0 --unixsocket s --save '' --daemonize yes --logfile log --dir . > /dev/null
until redis-cli -s s ping 2> /dev/null | grep -q PONG; do sleep 0.05; done
redis-cli -s s set key value; redis-cli -s s get key; redis-cli -s s eval 'local x = 0 for i = 1, 10000 do x = x + i \
end return x' 0
redis-cli -s s lpush list c a b; redis-cli -s s sort list alpha; redis-cli -s s shutdown nosave; rm -f log s
"""

GDB = """
printf 'int inner(int x) { return x + 1; }\\nint main(void) { return inner(41); }\\n' > p.c && gcc -g -O0 -o p p.c
gdb -q -nx -batch -ex 'set debuginfod enabled off' -ex 'break inner' -ex run -ex bt -ex 'print x' -ex finish -ex \
continue p 2>&1 \\
  | sed 's/process [0-9]*/process N/; s/0x[0-9a-f]*/ADDRESS/' | grep -v 'libthread_db\\|^$'
rm p
"""

# Parts of Python's own tests: threads, processes, modules loaded at run time, signals.
PYTHON = """
"$PYTHON" -W ignore -m unittest -q test.test_threading.ThreadTests.test_limbo_cleanup \\
  test.test_threading.ThreadJoinOnShutdown test.test_dynamicclassattribute test.test_mmap test.test_poll \
test.test_errno \\
  test.test_signal.PosixTests test.test_signal.WakeupSignalTests test.test_subprocess.ProcessTestCase.test_call_seq \\
  test.test_subprocess.ProcessTestCase.test_communicate test.test_subprocess.POSIXProcessTestCase.test_preexec \\
  test.test_subprocess.POSIXProcessTestCase.test_close_fds test.test_os.SpawnTests test.test_ctypes 2>&1 \\
  | sed -E 's/in [0-9.]+s/in TIME/; s/0x[0-9a-f]+|[0-9.]+ usec|[0-9]{10,}/N/g'
"$PYTHON" -c 'import multiprocessing as m
for way in ("fork", "spawn", "forkserver"):
    with m.get_context(way).Pool(2) as pool: print(way, pool.map(abs, range(-3, 3)))' 2>&1 | grep -v Deprecat
"""

PROGRAMS = [
    program("sh", "x=1; for i in 1 2 3; do x=$((x * i + 7)); done; echo $x; (exit 3); echo $?; trap 'echo bye' EXIT; "
            "cat; kill -TERM $$",
            stdin=b"given\n"),
    program("dash", "dash -c 'set -- a b; echo \"$2$1\" | tr ab xy; ls missing; f() { return 9; }; f'", "dash"),
    program("bash", "bash -c 'declare -A m=([k]=v); echo ${m[k]}; diff <(seq 3) <(seq 4); coproc cat; echo hi "
            ">&${COPROC[1]}; "
            "read -u ${COPROC[0]} x; echo $x; wait -n <(false); exec 5<>f; echo $BASHPID | wc -l; kill -9 "
            "$BASHPID'", "bash"),
    program("bash jobs", "bash -c 'p=; for i in 1 2 3 4 5 6 7 8; do (exit $i) & p=\"$p $!\"; done; s=0; for j in $p; "
            "do wait $j; s=$((s + $?)); done; echo $s'",
            "bash"),
    program("busybox", "busybox sh -c 'seq 9 | busybox awk \"{ s += \\$1 } END { print s }\"'", "busybox"),
    program("tclsh", "echo 'set x [exec echo child]; puts \"$x [expr 6*7]\"; exit 6' | tclsh", "tclsh"),
    program("coreutils", LINES + "; sha256sum lines; od -c lines | tail -2; split -l 1000 lines part; wc -c part*; "
            "join lines lines | tail -1; "
            "tac lines | head -1; timeout 0.1 sleep 5; echo $?; nice -n 3 nice; env -i printenv; dd if=lines bs=100 "
            "count=2 status=none | md5sum; rm part*"),
    program("stdbuf", "stdbuf -oL sh -c 'echo line'; echo $?"),  # preloads its own library
    program("awk", LINES + "; awk '{ n[$1 % 7] += length($0) } END { for (i = 0; i < 7; i++) print i, n[i]; \"echo "
            "child\" | getline x; print x }' lines"),
    program("sed", LINES + "; sed -n '/99/{s/words/WORDS/;p}' lines | sed -i.bak '1d' lines; sed --posix 's/(/x/' "
            "lines | tail -1; sed 'k' lines"),
    program("grep", LINES + "; grep -c '7.*words' lines; grep -rn 2999 .; grep -E '^(1|2)0+ ' lines; grep '[' lines; "
            "echo $?"),
    program("find", "mkdir -p a/b/c; touch a/x a/b/y a/b/c/z; find a -type f | sort; find a -name y -exec echo {} +; "
            "find . -type f | sort | xargs -P 4 -n 1 basename | sort; find missing"),
    program("sort", "seq 200000 | sort -R --random-source=/bin/sh | sort -n --parallel=4 -S 1M | md5sum; sort missing"),
    program("bc", "echo 'scale=30; 4*a(1); 2^200' | bc -l", "bc"),
    program("m4", "echo 'define(`f'\\'', `$1$1'\\'')f(x)syscmd(echo child)' | m4", "m4"),
    program("ed", "seq 5 > f; printf '2,3d\\n1,$p\\n!echo child\\nw\\nq\\n' | ed -s f", "ed"),
    program("diff patch", LINES + "; sed 's/7/seven/' lines > new; diff -u lines new | sed 's/\t.*//' > change; wc -l "
            "< change; patch -s lines change; "
            "cmp lines new; echo $?", "diff patch"),
    program("tar", LINES + "; mkdir d; cp lines d; tar --sort=name --mtime=@0 --owner=0 --group=0 -czf t.tgz d; tar "
            "-tvzf t.tgz | cut -c1-10; "
            "mkdir out; tar -C out -xf t.tgz; cmp d/lines out/d/lines; tar -xf missing; rm -rf out d t.tgz"),
    program("gzip", LINES + "; gzip -n9 lines; md5sum lines.gz; zcat lines.gz | tail -1; echo broken | gunzip"),
    program("bzip2", LINES + "; bzip2 lines; md5sum lines.bz2; bzcat lines.bz2 | tail -1", "bzip2"),
    program("xz", LINES + "; xz -T2 -k lines; xz -T1 -t lines.xz; xzcat lines.xz | cmp - lines; rm lines.xz; echo "
            "broken | xz -d", "xz"),
    program("zip", LINES + "; zip -q -X z.zip lines; unzip -p z.zip | cmp - lines; unzip -q missing.zip; rm "
            "z.zip", "zip unzip"),
    program("git", GIT, "git"),
    program("make", MAKE, "make"),
    program("cmake", CMAKE, "cmake"),
    program("gcc and binutils", GCC, "gcc ar"),
    program("perl", PERL, "perl"),
    program("openssl", "seq 100 > f; openssl dgst -sha256 f; openssl enc -aes-256-cbc -pbkdf2 -k p -in f | openssl "
            "enc -d -aes-256-cbc -pbkdf2 -k p | md5sum; "
            "openssl ecparam -name prime256v1 -genkey -noout | openssl ec -check -noout; openssl x509 -in f 2> error; "
            "echo $?; rm error", "openssl"),
    program("ssh-keygen", "ssh-keygen -q -t ed25519 -N '' -C c -f k; ssh-keygen -y -f k > p; cmp p k.pub; echo $?; "
            "ssh-keygen -lf k | wc -w; ssh-keygen -lf missing; rm k k.pub p", "ssh-keygen"),
    program("gpg", "mkdir -m 700 g; echo x | gpg --homedir g --batch --print-md sha256; rm -r g", "gpg"),
    program("curl", LINES + "; curl -s file://$PWD/lines | md5sum; curl -sS file://$PWD/missing; echo $?", "curl"),
    program("sqlite3", "sqlite3 db 'create table t(x); with recursive c(x) as (select 1 union all select x+1 from c "
            "limit 5000) insert into t select x from c; "
            "select count(*), sum(x) from t; select json_group_array(x) from (select x from t limit 3); select "
            "nothing'; echo $?; rm db", "sqlite3"),
    program("vim", "seq 20 > f; vim -Nes -u NONE -i NONE -c '%s/1/one/g' -c 'normal Gdd' -c '%!sort -r' -c 'wq' f; "
            "echo $?; cat f", "vim"),
    program("less", LINES + "; less lines | md5sum; LESSSECURE=1 less missing; echo $?", "less"),
    program("file", "file -b /bin/sh | cut -c1-10; echo '#!/bin/sh' > s; file s", "file"),
    program("node", NODE, "node"),
    program("java", "java -Xshare:auto -XX:+UseSerialGC -version; java -Xint no.such.Class 2>&1 | head -1", "java"),
    program("tmux", "tmux -S s -f /dev/null new-session -d 'tty | cut -c1-8 > out; sleep 0.1; echo done >> out'; "
            "while tmux -S s ls > /dev/null 2>&1; do sleep 0.05; done; "
            "cat out; rm -f s", "tmux"),
    program("script", "script -qec 'echo on a terminal; test -t 1; echo $?' /dev/null", "script"),
    program("flock setsid", "flock f sh -c 'flock -n f true; echo $?'; setsid -w sh -c 'exit 4'; echo $?", "flock "
            "setsid"),
    program("unshare", "unshare -r sh -c 'id -u; cat /proc/self/uid_map | wc -l'; unshare -p -f sh -c 'echo $$'; echo "
            "$?", "unshare"),
    program("strace", "strace -f -e trace=write -e signal=none -o log sh -c 'echo hi; /bin/echo there'; sed "
            "'s/^[0-9]* *//' log; rm log", "strace"),
    program("gdb", GDB, "gdb gcc"),
    program("redis", REDIS, "redis-server redis-cli"),
    program("postgres", POSTGRES, "psql setpriv initdb"),
    program("python", PYTHON),
]


def missing(needs):
    path = ":".join([os.environ["PATH"], *(f"{POSTGRES_BASE}/{v}/bin" for v in listdir(POSTGRES_BASE))])
    return [need for need in needs if not shutil.which(need, path=path)]


def listdir(path):
    return os.listdir(path) if os.path.isdir(path) else []


def tree(folder):
    """{path: (mode, contents)} of all files in `folder`."""
    found = {}
    for path, folders, files in os.walk(folder):
        for name in folders + files:
            full = os.path.join(path, name)
            mode = os.lstat(full).st_mode
            contents = None
            if stat.S_ISREG(mode):
                with open(full, "rb") as file:
                    contents = hashlib.sha256(file.read()).hexdigest()
            found[os.path.relpath(full, folder)] = (stat.filemode(mode), contents)
    return found


class Programs(e2e.Case):
    def setUp(self):
        super().setUp()
        os.chmod(self.folder, 0o755)  # for programs that drop root

    def outcome(self, program, host):
        """(result, files) of the script in a fresh folder. It is private: dlhook's files would be in it."""
        work = os.path.join(self.folder, "work")
        shutil.rmtree(work, ignore_errors=True)
        for name in ("", "home", "tmp"):
            os.mkdir(os.path.join(work, name))
        os.chmod(os.path.join(work, "tmp"), 0o777)
        environment = e2e.clean_environment(HOME=work + "/home", TMPDIR=work + "/tmp", LC_ALL="C", TERM="dumb",
                                            PYTHON=sys.executable)
        if host == "writer":
            environment["LD_PRELOAD"] = e2e.SHIM
        argv = ["/bin/sh", "-c", program.script]
        result = e2e.run(self.command(host, argv), env=environment, cwd=work, stdin=program.stdin, timeout=120)
        return result, tree(work)

    def check(self, program):
        if missing(program.needs):
            self.skipTest("no " + ", ".join(missing(program.needs)))
        if program.name == "postgres":
            self.skip_unless_nobody_can_read_the_shim()
        plain, plain_files = self.outcome(program, "plain")
        for host in ("writer", "launcher"):
            with self.subTest(host=host):
                self.fresh_run()
                result, files = self.outcome(program, host)
                self.assert_same_behaviour(plain, result, host)
                self.assertEqual(plain_files, files)
                self.assertEqual(e2e.Run(self.run_path).files(), [])

    def skip_unless_nobody_can_read_the_shim(self):
        if os.getuid() != 0:
            self.skipTest("only root can start it as somebody else")
        argv = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "test", "-r", e2e.SHIM]
        if subprocess.run(argv, check=False).returncode != 0:
            self.skipTest("its user may not read the library")


def add_tests():
    for entry in PROGRAMS:
        name = "test_" + entry.name.replace(" ", "_").replace("-", "_")
        setattr(Programs, name, lambda self, entry=entry: self.check(entry))


add_tests()

if __name__ == "__main__":
    e2e.main(at_once=4)
