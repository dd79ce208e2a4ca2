// The definitions that every kernel starts from.
#include <math.h>
#include <stdint.h>
#include <string.h>

// Four words of random bits.
typedef struct {
    uint32_t w[4];
} u32x4;

// The log of a kernel, as the ABI lays it out.
typedef struct kernel_log {
    void (*value)(struct kernel_log *log, uint64_t low, uint64_t high);
    void (*line)(struct kernel_log *log, uint64_t number);
} kernel_log;

// Set when the library is loaded.
double (*huge_angle_sin)(double), (*huge_angle_cos)(double);

#define KERNEL(name) \
    void name(uint8_t *const *args, const int64_t *bindings, uint8_t *scratch, uint64_t begin, uint64_t end)
