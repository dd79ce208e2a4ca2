#!/bin/sh
# Runs the tests and the benchmarks of this archive on the NVIDIA GPU of this machine. README.md says more.
#
#   ./run.sh [PART ..]     by default all parts, in the order of README.md
#
# Environment:
#   OUT      where results go; ./out if it is not set. A step that has passed there is not run again
#   FORCE    if it is set, steps that have passed are run again
#   LIMIT    seconds after which a part ends; 180 if it is not set. Run the script again to continue it
#   CASES    names of cases, instead of those that `models`, `kernels` and `cpu` choose
#   BENCH    further arguments of the benchmark program in `bench`, such as `--filter gemm,softmax`
#   CUBLAS, NCCL   these libraries, if the loader, CUDA's toolkit and Python's packages lack them
set -u
here=$(cd "$(dirname "$0")" && pwd)
out=${OUT:-$PWD/out}
mkdir -p "$out/lib" || exit 1
out=$(cd "$out" && pwd)
BENCH_COMMIT=$(cat "$here/COMMIT")
BENCH_PYTHON=$(command -v python3)
export REQUIRE_CUDA=1 DEVICE_CUDA_TEST_REAL=1 FILETESTS_FILES="$here/files" BENCH_COMMIT BENCH_PYTHON
export BENCH_PEERS="$here/peers"

# Without a usable GPU every part would fail, so the script ends at once.
if ! gpu=$("$here/bin/benches" --backend cuda --describe 2>&1); then
    echo "run.sh: REQUIRE_CUDA=1, and ${gpu#error: }" >&2
    exit 1
fi
echo "$gpu, commit $BENCH_COMMIT, results in $out"
{ echo "$gpu"; date -u; nvidia-smi; nproc; "$BENCH_PYTHON" -m pip list; } >"$out/machine.txt" 2>&1

passed=
failed=
missing=
# step NAME COMMAND ..: runs a command until it ends or the part's time is over, and adds its output to NAME.txt.
step() {
    name=$1
    shift
    [ -z "${FORCE:-}" ] || rm -f "$out/$name".*
    left=$((deadline - $(date +%s)))
    if [ -e "$out/$name.passed" ]; then
        echo "$name: has passed before"
        passed="$passed $name"
        return
    elif [ $left -le 0 ]; then
        lack "$name" "the time of the part is over"
        return
    fi
    start=$(date +%s)
    echo "== $(date -u) $*" >>"$out/$name.txt"
    timeout -k 10 $left "$@" >>"$out/$name.txt" 2>&1
    status=$?
    took="$(($(date +%s) - start)) s"
    case $status in
        0)
            passed="$passed $name"
            : >"$out/$name.passed"
            echo "$name: passed, $took"
            ;;
        124 | 137)
            missing="$missing $name"
            echo "$name: NOT FINISHED after $took"
            ;;
        *)
            failed="$failed $name"
            echo "$name: FAILED with $status, $took"
            return $status
            ;;
    esac
}

# lack NAME WHY ..: a step that cannot run.
lack() {
    missing="$missing $1"
    echo "$1: NOT RUN: $2" | tee -a "$out/$1.txt"
}

# tests PROGRAM ..: runs test programs. If one fails, runs each of its tests in a process of its own as well: a
# lost device is lost for the whole process, and makes all later tests of the process fail.
tests() {
    for program in "$@"; do
        name=$(basename "$program")
        step "$name" "$program" --nocapture || apart "$program" >"$out/$name-apart.txt"
    done
}

apart() {
    for one in $("$1" --list --format terse | sed -n 's/: test$//p'); do
        echo "== $one"
        timeout -k 10 60 "$1" --exact "$one" --nocapture 2>&1 || echo "== $one FAILED"
    done
}

# Prints the first of the given files that exists.
first() {
    for file in "$@"; do
        if [ -e "$file" ]; then echo "$file"; return; fi
    done
}

# library NAME FILE: makes a library of NVIDIA's available to the loader: the given file, or one of Python's
# packages, of a toolkit or of the system.
library() {
    packages=$("$BENCH_PYTHON" -c 'import site; print(" ".join(site.getsitepackages() + [site.getusersitepackages()]))' 2>/dev/null)
    found=$2
    for folder in $packages; do
        [ -n "$found" ] || found=$(first "$folder/nvidia/$1"/lib/lib"$1".so.* "$folder"/nvidia/cu*/lib/lib"$1".so.*)
    done
    [ -n "$found" ] || found=$(first /usr/local/cuda*/lib64/lib"$1".so* /usr/lib/x86_64-linux-gnu/lib"$1".so*)
    [ -n "$found" ] || return 1
    ln -sf "$found" "$out/lib/lib$1.so"
    export LD_LIBRARY_PATH="$out/lib:$(dirname "$found")${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    echo "$1: $found"
}

has_torch() {
    "$BENCH_PYTHON" -c "import torch; assert $1" >/dev/null 2>&1
}

# bench NAME ARGUMENT ..: measures benchmark cases, continues where an earlier run was ended, and shows the table.
bench() {
    name=$1
    shift
    step "$name" "$here/bin/benches" --keep-going --resume --json "$out/$name.json" "$@"
    sed -n 'H;/^== /h;${x;p}' "$out/$name.txt"
}

# Files of NVIDIA's Vulkan driver.
vulkan_driver() {
    first /usr/share/vulkan/icd.d/nvidia_icd*.json /etc/vulkan/icd.d/nvidia_icd*.json \
        /usr/local/nvidia/share/vulkan/icd.d/nvidia_icd*.json
}

wgpu() {
    driver=$(vulkan_driver)
    if [ -z "$driver" ]; then
        lack wgpu "this machine has no Vulkan driver of NVIDIA (nvidia_icd.json)"
        return
    fi
    export VK_DRIVER_FILES="$driver" REQUIRE_GPU_TOOLS=1
    export LD_LIBRARY_PATH="$here/vulkan${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    adapter=$("$here/bin/benches" --backend wgpu --describe 2>&1)
    echo "wgpu: $driver: $adapter"
    case $adapter in
        *NVIDIA*)
            step wgpu-digits "$here/bin/digits" --backend wgpu --data "$here/files/data/digits.csv.gz"
            tests "$here"/tests/device-wgpu-* "$here"/tests/arrayjit-wgpu*
            bench wgpu-bench --backend wgpu --filter matmul_1024,softmax_1024x1024,layernorm_1024x1024,gelu_4m,sum_4m
            ;;
        *) lack wgpu "found no Vulkan adapter of the GPU: $adapter" ;;
    esac
}

models=lenet_train_32,resnet8_train_32,gpt_train_8x128x256,gpt_forward_1x256,gpt_decode_1,lstm_train_32x64x256
models=$models,heat_1024_step,adamw_step,mlp_infer_1,fft_262144,mlp_step,attention_bf16,gemm_bf16_4096
kernels=matmul_1024,conv3x3,causal_attention_8x256x64,softmax_1024x1024,axpy_relu_4m,sum_4m
for part in ${*:-driver backend digits kernels models cpu wgpu approximate nccl bench warps}; do
    deadline=$(($(date +%s) + ${LIMIT:-180}))
    case $part in
        driver) tests "$here"/tests/device-cuda-* ;;
        backend) tests "$here"/tests/arrayjit-cuda* ;;
        digits) step digits "$here/bin/digits" --backend cuda --data "$here/files/data/digits.csv.gz" ;;
        kernels) bench kernels --backend cuda --kernels --filter "${CASES:-$models,$kernels}" ;;
        models)
            library cublas "${CUBLAS:-}"
            if has_torch 'torch.cuda.is_available()'; then
                bench models --backend cuda --peers torch,torch-compile,cublas --filter "${CASES:-$models}"
            else
                lack models "python3 has no torch that uses the GPU"
            fi
            ;;
        cpu)
            peers=
            has_torch True && peers="--peers torch"
            for threads in 1 2 4 8 16; do
                [ $threads -gt "$(nproc)" ] && continue
                # shellcheck disable=SC2086
                bench cpu-$threads --backend multicore --threads $threads --idle $peers \
                    --filter "${CASES:-$kernels,lenet_train_32,resnet8_train_32,gpt_train_8x,gpt_forward_1x,mlp_infer_1}"
            done
            files=$(ls "$out"/cpu-*.json 2>/dev/null | paste -sd,)
            [ -z "$files" ] || "$here/bin/benches" --scaling "$files" | tee "$out/cpu.txt"
            ;;
        wgpu) wgpu ;;
        approximate)
            step approximate "$here/tests/arrayjit-cuda" approximate --nocapture
            cat "$out/approximate.txt"
            ;;
        nccl)
            if library nccl "${NCCL:-}"; then
                step nccl env NCCL_GROUP_TEST_REAL=1 "$here/tests/arrayjit-collectives-nccl_group" one_rank --nocapture
                cat "$out/nccl.txt"
            else
                lack nccl "found no NCCL among Python's packages, in a toolkit or in the system"
            fi
            ;;
        bench)
            library cublas "${CUBLAS:-}"
            # shellcheck disable=SC2086
            bench bench --backend cuda --peers cublas --report "$out/bench.html" ${BENCH:-}
            ;;
        warps)
            library cublas "${CUBLAS:-}"
            ARRAYJIT_TENSOR_CORES=warps bench warps --backend cuda --filter gemm_bf16 --peers cublas
            ;;
        *)
            echo "run.sh: no part is named $part; README.md has their names" >&2
            exit 2
            ;;
    esac
done
(cd "$out" && ls | grep -Ev '^(lib|results.tar.gz)$' | tar -czf results.tar.gz -T -)
echo "passed:${passed:- none}"
[ -z "$missing" ] || echo "run.sh: not run or not finished:$missing" >&2
[ -z "$failed" ] || echo "run.sh: failed:$failed; what each said is in $out" >&2
[ -z "$failed$missing" ]
