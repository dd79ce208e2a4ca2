#!/bin/sh
# Runs the tests and the benchmarks of this archive on the NVIDIA GPU of this machine. README.md says more.
#
#   ./run.sh [PART ..]     parts: driver, backend, digits, bench, warps; by default all, in this order
#
# Environment:
#   OUT      where results go; ./out if it is not set
#   LIMIT    seconds after which a step is ended; 1200 if it is not set
#   BENCH    further arguments of the benchmark program, such as `--filter gemm,softmax`
#   CUBLAS   the library to compare with, if the loader, CUDA's toolkit and Python's packages lack it
set -u
here=$(cd "$(dirname "$0")" && pwd)
out=${OUT:-$PWD/out}
mkdir -p "$out" || exit 1
out=$(cd "$out" && pwd)
BENCH_COMMIT=$(cat "$here/COMMIT")
export REQUIRE_CUDA=1 DEVICE_CUDA_TEST_REAL=1 FILETESTS_FILES="$here/files" BENCH_COMMIT

# Without a usable GPU every part would fail, so the script ends at once.
if ! gpu=$("$here/bin/benches" --backend cuda --describe 2>&1); then
    echo "run.sh: REQUIRE_CUDA=1, and ${gpu#error: }" >&2
    exit 1
fi
echo "$gpu, commit $BENCH_COMMIT, results in $out"
{ echo "$gpu"; date -u; nvidia-smi 2>&1; } >"$out/machine.txt"

failed=
# step NAME COMMAND ..: runs the command, writes its output to a file, and continues after a failure. It ends
# a command that hangs, such as kernels that wait for each other, after the limit.
step() {
    name=$1
    shift
    start=$(date +%s)
    timeout --foreground -k 10 "${LIMIT:-1200}" "$@" >"$out/$name.txt" 2>&1
    status=$?
    case $status in
        0) said=ok ;;
        124 | 137) said="FAILED, ended after ${LIMIT:-1200} s" ;;
        *) said="FAILED with $status" ;;
    esac
    [ $status -eq 0 ] || failed="$failed $name"
    echo "$name: $said, $(($(date +%s) - start)) s"
    return $status
}

# apart TEST: runs each test of a program in a process of its own. A lost device is lost for the whole
# process. One such failure would therefore make all later tests of the process fail.
apart() {
    count=0
    bad=0
    for one in $("$here/tests/$1" --list --format terse | sed -n 's/: test$//p'); do
        count=$((count + 1))
        echo "== $one"
        timeout --foreground -k 10 "${LIMIT:-1200}" "$here/tests/$1" --exact "$one" --nocapture 2>&1 || bad=$((bad + 1))
    done >"$out/$1-apart.txt"
    echo "$1: by themselves, $bad of its $count tests fail"
}

# Prints the first of the given files that exists.
first() {
    for file in "$@"; do
        if [ -e "$file" ]; then echo "$file"; return; fi
    done
}

# Finds cuBLAS and links it in a folder where the benchmark program looks for it.
find_cublas() {
    packages=$(python3 -c 'import site; print(" ".join(site.getsitepackages() + [site.getusersitepackages()]))' 2>/dev/null)
    found=${CUBLAS:-}
    for folder in $packages; do
        [ -n "$found" ] || found=$(first "$folder"/nvidia/cublas/lib/libcublas.so.* "$folder"/nvidia/cu*/lib/libcublas.so.*)
    done
    [ -n "$found" ] || found=$(first /usr/local/cuda/lib64/libcublas.so* /usr/local/cuda-*/lib64/libcublas.so* /usr/lib/x86_64-linux-gnu/libcublas.so*)
    [ -n "$found" ] || return
    mkdir -p "$out/lib"
    ln -sf "$found" "$out/lib/libcublas.so"
    LD_LIBRARY_PATH="$out/lib:$(dirname "$found")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    export LD_LIBRARY_PATH
    echo "cuBLAS: $found"
}

tests() {
    for test in "$@"; do
        step "$test" "$here/tests/$test" --nocapture || apart "$test"
    done
}

for part in ${*:-driver backend digits bench warps}; do
    case $part in
        driver) tests open driver code sequence suite peers logging lost ;;
        backend) tests cuda_backend cuda ;;
        digits) step digits "$here/bin/digits" --backend cuda --data "$here/files/data/digits.csv.gz" ;;
        bench)
            find_cublas
            # shellcheck disable=SC2086
            step bench "$here/bin/benches" --backend cuda --peers cublas --keep-going \
                --json "$out/bench.json" --report "$out/bench.html" ${BENCH:-}
            cat "$out/bench.txt"
            ;;
        warps)
            find_cublas
            step warps env ARRAYJIT_TENSOR_CORES=warps "$here/bin/benches" --backend cuda --filter gemm_bf16 \
                --peers cublas --keep-going --json "$out/warps.json"
            cat "$out/warps.txt"
            ;;
        *)
            echo "run.sh: no part is named $part; expected driver, backend, digits, bench or warps" >&2
            exit 2
            ;;
    esac
done
if [ -n "$failed" ]; then
    echo "run.sh: failed:$failed; what each said is in $out" >&2
    exit 1
fi
