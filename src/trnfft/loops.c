/* Transforms of rows on the host: complex, real, cosine and sine, of any length (`fft.h`, `odd.h`, `rows.h`, `columns.h`,
   `trigonometric.h`, `run.h`). */

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef int64_t idx;

enum { C2C, R2C, C2R, R2CC, TYPE1, TYPE2, TYPE3, TYPE4 };
enum { INVERSE = 1, CONJUGATE = 2, SINE = 4, BEFORE = 8, AFTER = 16, PAIRED = 32 };

#define RADIX_MOST 127
#define THREADS_MOST 64

/* products and sums may become one instruction here: nothing promises the bits of another path */
#if defined(__clang__)
#pragma STDC FP_CONTRACT ON
#define UNROLLED _Pragma("clang loop unroll(full)")
#else
#pragma GCC optimize("fp-contract=fast")
#define UNROLLED _Pragma("GCC unroll 16")
#endif

#if defined(__clang__) || __GNUC__ >= 12
#define SHUFFLE(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(a, b, ...) __builtin_shuffle(a, b, (__typeof__((a) < (a))){__VA_ARGS__})
#endif
#define INLINE static inline __attribute__((always_inline))

/* A first touch of fresh memory costs more than a transform of what lies on it; large pages have few */
#define LARGE_PAGE ((size_t)1 << 21)

static void in_large_pages(void *at, size_t bytes) {
#ifdef MADV_HUGEPAGE
    char *first = (char *)(((uintptr_t)at + 4095) / 4096 * 4096);
    if (bytes >= 2 * LARGE_PAGE) madvise(first, bytes - (size_t)(first - (char *)at), MADV_HUGEPAGE);
#else
    (void)at;
    (void)bytes;
#endif
}

/* Memory for intermediate results; the last one returned is kept for the next call unless it is large */
#define KEPT_MOST ((size_t)1 << 26)
struct space { void *at; size_t bytes; };
static _Atomic(struct space *) kept;

static struct space borrow(size_t bytes) {
    struct space *last = atomic_exchange(&kept, NULL), found = {0};
    if (last) {
        found = *last;
        free(last);
        if (found.bytes >= bytes) return found;
        free(found.at);
    }
    size_t unit = bytes >= 2 * LARGE_PAGE ? LARGE_PAGE : 64;
    found.bytes = (bytes + unit - 1) / unit * unit;
    found.at = aligned_alloc(unit, found.bytes);
    if (found.at) in_large_pages(found.at, found.bytes);
    return found;
}

static void give_back(struct space used) {
    struct space *next = used.bytes <= KEPT_MOST ? malloc(sizeof used) : NULL;
    if (next) *next = used;
    else free(used.at);
    struct space *other = next ? atomic_exchange(&kept, next) : NULL;
    if (other) free(other->at);
    free(other);
}

/* vectors of 32 bytes are as fast as longer ones where those are two halves, and leave twice as much in the cache */
#if defined(__AVX__)
#define BYTES 32
#else
#define BYTES 16
#endif

#define T float
#define LANES (BYTES / 4)
#define NAME(x) x##_float32
#include "fft.h"
#include "odd.h"
#include "rows.h"
#include "columns.h"
#include "trigonometric.h"
#include "run.h"
#undef T
#undef LANES
#undef NAME

#define T double
#define LANES (BYTES / 8)
#define NAME(x) x##_float64
#include "fft.h"
#include "odd.h"
#include "rows.h"
#include "columns.h"
#include "trigonometric.h"
#include "run.h"
