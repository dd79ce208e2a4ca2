/* The routines of `tone_filter` for `x86_64-unknown-linux-gnu`. */
#ifndef TONE_FILTER_H
#define TONE_FILTER_H

#include <cpuid.h>
#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes of the arena, which suffice for every routine. All arrays and the arena are aligned to 64 bytes. */
#define TONE_FILTER_ARENA_BYTES 0

/* Bytes of scratch memory for each thread but the first. */
#define TONE_FILTER_THREAD_BYTES 0

/* Threads that divide the work of a routine. A null pointer stands for the thread that calls. Results do not
   depend on the threads. */
struct tone_filter_threads {
    /* Calls task(data) on up to `count` threads, and returns when all these calls have returned. They may be
       fewer, more or later, or all on one thread. */
    void (*run)(void *context, uint64_t count, void (*task)(void *data), void *data);
    void *context; /* the first argument of `run` */
    uint64_t count; /* of threads */
    void *scratch; /* TONE_FILTER_THREAD_BYTES for each thread but the first, aligned to 64 bytes */
};

/* Whether the processor computes the halves of 512 bits one after the other: Zen 4 and some of Zen 5. */
static inline bool tone_filter_halves_vectors(void) {
    unsigned int eax = 0, ebx = 0, ecx = 0, edx = 0;
    if (!__get_cpuid(0, &eax, &ebx, &ecx, &edx) || ebx != 0x68747541) return false;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx)) return false;
    unsigned int family = (eax >> 8 & 15) + (eax >> 20 & 255), model = (eax >> 4 & 15) | (eax >> 12 & 0xf0);
    return family == 0x19 || (family == 0x1a && model >= 0x20 && model >> 4 != 4);
}

/* The best code that this processor can run, for the parameter `level` of routines; -1 if there is none. */
static inline int tone_filter_level(void) {
    if (__builtin_cpu_supports("x86-64-v4") && !tone_filter_halves_vectors()) return 0;
    if (__builtin_cpu_supports("x86-64-v4")) return 1;
    if (__builtin_cpu_supports("x86-64-v3")) return 2;
    if (__builtin_cpu_supports("x86-64-v2")) return 3;
    return -1;
}

int64_t tone_filter_step_x86_64_v4(void *const *args, const int64_t *bindings, void *arena, const struct tone_filter_threads *threads);
int64_t tone_filter_step_x86_64_v4_mixed(void *const *args, const int64_t *bindings, void *arena, const struct tone_filter_threads *threads);
int64_t tone_filter_step_x86_64_v3(void *const *args, const int64_t *bindings, void *arena, const struct tone_filter_threads *threads);
int64_t tone_filter_step_x86_64_v2(void *const *args, const int64_t *bindings, void *arena, const struct tone_filter_threads *threads);

/* The routine `step`
   `x`: f32[8, 3], read
   `y`: f32[8, 2], written
   `n`: 1 to 8
   Returns 0; or -1 if an array is not aligned or null, -2 if there is no such level, and the position from 1
   of a value that is out of its range. Nothing has changed then. */
static inline int64_t tone_filter_step(int level, const float *x, float *y, int64_t n, void *arena, const struct tone_filter_threads *threads) {
    if (!x || !y) return -1;
    void *const args[] = {(void *)x, (void *)y};
    const int64_t values[] = {n};
    if (level == 0) return tone_filter_step_x86_64_v4(args, values, arena, threads);
    if (level == 1) return tone_filter_step_x86_64_v4_mixed(args, values, arena, threads);
    if (level == 2) return tone_filter_step_x86_64_v3(args, values, arena, threads);
    if (level == 3) return tone_filter_step_x86_64_v2(args, values, arena, threads);
    return -2;
}

#ifdef __cplusplus
}
#endif

#endif
