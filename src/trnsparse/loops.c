/* Host loops over compressed rows, written once for four dtypes and included by macro. */
#include <complex.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

/* Complex products without the standard's detour for infinities, quotients scaled: what BLAS and NumPy compute. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("cx-fortran-rules")
#endif

typedef int64_t idx;

#define INLINE static inline __attribute__((always_inline))

/* Loads that jump about are faster one by one than gathered, and faster in the order of a generic processor. Where so
   short a loop lies in memory decides a quarter of its time. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__)
#define SCALAR              \
    __attribute__((noinline, \
                   target("tune=generic"), optimize("no-tree-vectorize,no-tree-slp-vectorize,align-loops=32")))
#else
#define SCALAR
#endif

/* Lanes of R in a vector of 64 bytes, and in what is left over when a row is shorter. */
#define LANES(R) W = 64 / sizeof(R), H = W / 2, Q = W / 4, E = W / 8

/* For real numbers R is the dtype and X is 0. For complex ones R is their real type, X is 1, and real and imaginary
   parts are lanes in turn: sums with the real and with the imaginary parts of the entries are kept apart and meet at
   the end. U, L and S are constants wherever a function is inlined, so that sums stay in registers. */
#define ROWS(NAME, R, X)                                                                                              \
    typedef R v64_##NAME __attribute__((vector_size(64), aligned(sizeof(R)), may_alias));                             \
    typedef R v32_##NAME __attribute__((vector_size(32), aligned(sizeof(R)), may_alias));                             \
    typedef R v16_##NAME __attribute__((vector_size(16), aligned(sizeof(R)), may_alias));                             \
    typedef R v8_##NAME __attribute__((vector_size(8), aligned(sizeof(R)), may_alias));                               \
    typedef struct {                                                                                                  \
        v64_##NAME whole[8];                                                                                          \
        v32_##NAME half;                                                                                              \
        v16_##NAME quarter;                                                                                           \
        v8_##NAME eighth;                                                                                             \
        R one;                                                                                                        \
    } sum_##NAME;                                                                                                     \
    /* s += v * (U vectors and L lanes at x) */                                                                       \
    INLINE void more_##NAME(const int U, const int L, sum_##NAME *s, const R v, const R *restrict x) {                \
        enum { LANES(R) };                                                                                            \
        for (int u = 0; u < U; u++, x += W) s->whole[u] += v * *(const v64_##NAME *)x;                                \
        if (L & H) s->half += v * *(const v32_##NAME *)x, x += H;                                                     \
        if (L & Q) s->quarter += v * *(const v16_##NAME *)x, x += Q;                                                  \
        if (E > 1 && (L & E)) s->eighth += v * *(const v8_##NAME *)x, x += E;                                         \
        if (L & 1) s->one += v * *x;                                                                                  \
    }                                                                                                                 \
    INLINE void store_##NAME(const int U, const int L, const sum_##NAME *s, R *restrict y) {                          \
        enum { LANES(R) };                                                                                            \
        for (int u = 0; u < U; u++, y += W) *(v64_##NAME *)y = s->whole[u];                                           \
        if (L & H) *(v32_##NAME *)y = s->half, y += H;                                                                \
        if (L & Q) *(v16_##NAME *)y = s->quarter, y += Q;                                                             \
        if (E > 1 && (L & E)) *(v8_##NAME *)y = s->eighth, y += E;                                                    \
        if (L & 1) *y = s->one;                                                                                       \
    }                                                                                                                 \
    /* y = the S sums, added up */                                                                                    \
    INLINE void finish_##NAME(const int U, const int L, const int S, sum_##NAME sums[4][1 + X], R *restrict y) {      \
        enum { LANES(R) };                                                                                            \
        for (int s = 1; s < S; s++)                                                                                   \
            for (int z = 0; z < 1 + X; z++) {                                                                         \
                sum_##NAME *to = &sums[0][z], *of = &sums[s][z];                                                      \
                for (int u = 0; u < U; u++) to->whole[u] += of->whole[u];                                             \
                to->half += of->half, to->quarter += of->quarter, to->eighth += of->eighth, to->one += of->one;       \
            }                                                                                                         \
        if (!X) {                                                                                                     \
            store_##NAME(U, L, &sums[0][0], y);                                                                       \
            return;                                                                                                   \
        }                                                                                                             \
        R real[9 * W], imaginary[9 * W];                                                                              \
        store_##NAME(U, L, &sums[0][0], real);                                                                        \
        store_##NAME(U, L, &sums[0][X], imaginary);                                                                   \
        for (int j = 0; j < U * W + L; j += 2) {                                                                      \
            y[j] = real[j] - imaginary[j + 1];                                                                        \
            y[j + 1] = real[j + 1] + imaginary[j];                                                                    \
        }                                                                                                             \
    }                                                                                                                 \
    /* y = sum_p a[p] x[col[p], :], U vectors and L lanes of it, S entries at a time */                               \
    INLINE void gather_##NAME(const int U, const int L, const int S, idx n, idx count, const idx *restrict col,       \
                              const R *restrict a, const R *restrict x, R *restrict y) {                              \
        enum { LANES(R) };                                                                                            \
        sum_##NAME sums[4][1 + X] = {0};                                                                              \
        idx p = 0;                                                                                                    \
        for (; p + S <= count; p += S)                                                                                \
            for (int s = 0; s < S; s++)                                                                               \
                for (int z = 0; z < 1 + X; z++)                                                                       \
                    more_##NAME(U, L, &sums[s][z], a[(p + s) * (1 + X) + z], x + col[p + s] * n);                     \
        for (; p < count; p++)                                                                                        \
            for (int z = 0; z < 1 + X; z++) more_##NAME(U, L, &sums[0][z], a[p * (1 + X) + z], x + col[p] * n);       \
        finish_##NAME(U, L, S, sums, y);                                                                              \
    }                                                                                                                 \
    /* y = one row of a row of blocks times x, U vectors and L lanes of it, S of its elements at a time */            \
    INLINE void meet_##NAME(const int U, const int L, const int S, idx n, idx count, idx bn, idx step, idx depth,     \
                            const idx *restrict col, const R *restrict a, const R *restrict x, R *restrict y) {       \
        enum { LANES(R) };                                                                                            \
        sum_##NAME sums[4][1 + X] = {0};                                                                              \
        for (idx p = 0; p < count; p++, a += step) {                                                                  \
            const idx first = col[p] * bn, width = depth - first < bn ? depth - first : bn;                           \
            const R *restrict from = x + first * n;                                                                   \
            idx c = 0;                                                                                                \
            for (; c + S <= width; c += S)                                                                            \
                for (int s = 0; s < S; s++)                                                                           \
                    for (int z = 0; z < 1 + X; z++)                                                                   \
                        more_##NAME(U, L, &sums[s][z], a[(c + s) * (1 + X) + z], from + (c + s) * n);                 \
            for (; c < width; c++)                                                                                    \
                for (int z = 0; z < 1 + X; z++)                                                                       \
                    more_##NAME(U, L, &sums[0][z], a[c * (1 + X) + z], from + c * n);                                 \
        }                                                                                                             \
        finish_##NAME(U, L, S, sums, y);                                                                              \
    }                                                                                                                 \
    /* y[col[p], :] += a[p] x: the same sums the other way round */                                                   \
    INLINE void scatter_##NAME(const int U, const int L, const int S, idx n, idx count, const idx *restrict col,      \
                               const R *restrict a, const R *restrict x, R *restrict y) {                             \
        enum { LANES(R) };                                                                                            \
        R turned[9 * W];                                                                                              \
        for (int j = 0; X && j < U * W + L; j += 2) turned[j] = -x[j + 1], turned[j + 1] = x[j];                      \
        for (idx p = 0; p < count; p++) {                                                                             \
            sum_##NAME sum;                                                                                           \
            R *restrict to = y + col[p] * n, *restrict at = to;                                                       \
            for (int u = 0; u < U; u++, at += W) sum.whole[u] = *(v64_##NAME *)at;                                    \
            if (L & H) sum.half = *(v32_##NAME *)at, at += H;                                                         \
            if (L & Q) sum.quarter = *(v16_##NAME *)at, at += Q;                                                      \
            if (E > 1 && (L & E)) sum.eighth = *(v8_##NAME *)at, at += E;                                             \
            if (L & 1) sum.one = *at;                                                                                 \
            more_##NAME(U, L, &sum, a[p * (1 + X)], x);                                                               \
            if (X) more_##NAME(U, L, &sum, a[p * (1 + X) + X], turned);                                               \
            store_##NAME(U, L, &sum, to);                                                                             \
        }                                                                                                             \
    }                                                                                                                 \
    /* y = a x for rows of blocks lo..hi: blocks of bm x bn, y of `height` rows and x of `depth`, of n elements each */\
    void bsrmm_##NAME(idx lo, idx hi, idx n, idx bm, idx bn, idx height, idx depth, const idx *ptr, const idx *col,   \
                      const R *restrict a, const R *restrict x, R *restrict y) {                                      \
        enum { LANES(R) };                                                                                            \
        n *= 1 + X;                                                                                                   \
        for (idx i = lo * bm; i < hi * bm && i < height; i++) {                                                       \
            const idx *c = col + ptr[i / bm], count = ptr[i / bm + 1] - ptr[i / bm], step = bm * bn * (1 + X);        \
            const R *v = a + ptr[i / bm] * step + i % bm * bn * (1 + X);                                              \
            SPAN(meet_##NAME, R, X, 0, (n, count, bn, step, depth, c, v), x, y + i * n)                               \
        }                                                                                                             \
    }                                                                                                                 \
    /* y += one column of a block times its rows of x, U vectors and L lanes of them */                               \
    INLINE void turn_##NAME(const int U, const int L, const int S, idx n, idx rows, idx step, const R *restrict a,    \
                            const R *restrict x, R *restrict y) {                                                     \
        enum { LANES(R) };                                                                                            \
        sum_##NAME sums[4][1 + X] = {0};                                                                              \
        idx r = 0;                                                                                                    \
        for (; r + S <= rows; r += S)                                                                                 \
            for (int s = 0; s < S; s++)                                                                               \
                for (int z = 0; z < 1 + X; z++) more_##NAME(U, L, &sums[s][z], a[(r + s) * step + z], x + (r + s) * n);\
        for (; r < rows; r++)                                                                                         \
            for (int z = 0; z < 1 + X; z++) more_##NAME(U, L, &sums[0][z], a[r * step + z], x + r * n);               \
        R made[9 * W];                                                                                                \
        finish_##NAME(U, L, S, sums, made);                                                                           \
        for (int j = 0; j < U * W + L; j++) y[j] += made[j];                                                          \
    }                                                                                                                 \
    /* y += a block times one column, its few sums in registers */                                                    \
    INLINE void column_##NAME(const int width, idx rows, idx bn, const R *restrict a, const R *restrict x,            \
                              R *restrict y) {                                                                        \
        R sum[8] = {0};                                                                                               \
        for (idx r = 0; r < rows; r++)                                                                                \
            for (int c = 0; c < width; c++) sum[c] += a[r * bn + c] * x[r];                                           \
        for (int c = 0; c < width; c++) y[c] += sum[c];                                                               \
    }                                                                                                                 \
    /* y = aT x for rows of blocks lo..hi, y starting at zero: each block adds to the rows of y that it meets */      \
    void bsrmmt_##NAME(idx lo, idx hi, idx n, idx bm, idx bn, idx height, idx depth, const idx *ptr, const idx *col,  \
                       const R *restrict a, const R *restrict x, R *restrict y) {                                     \
        n *= 1 + X;                                                                                                   \
        for (idx i = lo; i < hi; i++)                                                                                 \
            for (idx p = ptr[i]; p < ptr[i + 1]; p++) {                                                               \
                const idx rows = height - i * bm < bm ? height - i * bm : bm, first = col[p] * bn;                    \
                const idx width = depth - first < bn ? depth - first : bn, step = bn * (1 + X);                       \
                const R *block = a + p * bm * step, *from = x + i * bm * n;                                           \
                R *restrict to = y + first * n;                                                                       \
                if (n == 1 && width == 4)                                                                             \
                    column_##NAME(4, rows, bn, block, from, to);                                                      \
                else if (n == 1 && width == 8)                                                                        \
                    column_##NAME(8, rows, bn, block, from, to);                                                      \
                else if (n == 1)                                                                                      \
                    for (idx r = 0; r < rows; r++)                                                                    \
                        for (idx c = 0; c < width; c++) to[c] += block[r * bn + c] * from[r];                         \
                else                                                                                                  \
                    for (idx c = 0; c < width; c++)                                                                   \
                        SPAN(turn_##NAME, R, X, 0, (n, rows, step, block + c * (1 + X)), from, to + c * n)            \
            }                                                                                                         \
    }                                                                                                                 \
    /* y[i, :] = sum_p a[p] x[col[p], :] for rows lo..hi, rows of x and y of n contiguous elements */                 \
    void spmm_##NAME(idx lo, idx hi, idx n, const idx *ptr, const idx *col, const R *restrict a, const R *restrict x, \
                     R *restrict y) {                                                                                 \
        n *= 1 + X;                                                                                                   \
        if (ptr[hi] - ptr[lo] <= 16 * (hi - lo))                                                                      \
            for (idx i = lo; i < hi; i++) WALK(gather_##NAME, R, X, 1, i, x, y + i * n)                               \
        else                                                                                                          \
            for (idx i = lo; i < hi; i++) WALK(gather_##NAME, R, X, 0, i, x, y + i * n)                               \
    }                                                                                                                 \
    /* y[col[p], :] += a[p] x[i, :] for rows lo..hi: the transpose without forming it; y starts at zero */            \
    void spmmt_##NAME(idx lo, idx hi, idx n, const idx *ptr, const idx *col, const R *restrict a, const R *restrict x,\
                      R *restrict y) {                                                                                \
        n *= 1 + X;                                                                                                   \
        for (idx i = lo; i < hi; i++) WALK(scatter_##NAME, R, X, 1, i, x + i * n, y)                                  \
    }

/* The columns of one row: as many whole vectors at a time as there are, then the lanes left. Where rows have FEW
   entries, one at a time: the branches that end a loop cost more than sums that wait for each other. */
#define WALK(DO, R, X, FEW, i, x, y)                                                                                  \
    {                                                                                                                 \
        const idx *c = col + ptr[i], count = ptr[i + 1] - ptr[i];                                                     \
        const R *v = a + ptr[i] * (1 + X);                                                                            \
        SPAN(DO, R, X, FEW, (n, count, c, v), x, y)                                                                   \
    }
#define SPAN(DO, R, X, FEW, WITH, x, y)                                                                               \
    {                                                                                                                 \
        enum { LANES(R) };                                                                                            \
        idx j = 0;                                                                                                    \
        for (; j + 8 * W <= n; j += 8 * W) CALL(DO, 8, 0, 1, WITH, (x) + j, (y) + j);                                 \
        for (; j + 4 * W <= n; j += 4 * W) CALL(DO, 4, 0, 1, WITH, (x) + j, (y) + j);                                 \
        for (; j + 2 * W <= n; j += 2 * W) CALL(DO, 2, 0, FEW ? 1 : 2, WITH, (x) + j, (y) + j);                       \
        for (; j + W <= n; j += W) CALL(DO, 1, 0, FEW ? 1 : 4 >> X, WITH, (x) + j, (y) + j);                          \
        switch (n - j) {                                                                                              \
            LEFT(DO, X, FEW, 1, WITH, x, y) LEFT(DO, X, FEW, 2, WITH, x, y)                                           \
            LEFT(DO, X, FEW, 3, WITH, x, y)                                                                           \
            LEFT(DO, X, FEW, 4, WITH, x, y) LEFT(DO, X, FEW, 5, WITH, x, y)                                           \
            LEFT(DO, X, FEW, 6, WITH, x, y)                                                                           \
            LEFT(DO, X, FEW, 7, WITH, x, y) LEFT(DO, X, FEW, 8, WITH, x, y)                                           \
            LEFT(DO, X, FEW, 9, WITH, x, y)                                                                           \
            LEFT(DO, X, FEW, 10, WITH, x, y) LEFT(DO, X, FEW, 11, WITH, x, y)                                         \
            LEFT(DO, X, FEW, 12, WITH, x, y)                                                                          \
            LEFT(DO, X, FEW, 13, WITH, x, y) LEFT(DO, X, FEW, 14, WITH, x, y)                                         \
            LEFT(DO, X, FEW, 15, WITH, x, y)                                                                          \
        }                                                                                                             \
    }
#define LEFT(DO, X, FEW, L, WITH, x, y)                                                                               \
    case L:                                                                                                           \
        if (L < W && !(X && L % 2)) CALL(DO, 0, L, FEW ? 1 : 4 >> X, WITH, (x) + j, (y) + j);                         \
        break;
#define CALL(DO, U, L, S, WITH, x, y) EXPAND(DO, (U, L, S, OPEN WITH, x, y))
#define OPEN(...) __VA_ARGS__
#define EXPAND(DO, WITH) DO WITH

/* The four products take the same arguments; those with vectors have n = 1. */
ROWS(float32, float, 0)
ROWS(float64, double, 0)
ROWS(complex64, float, 1)
ROWS(complex128, double, 1)

/* Products with one column, for columns of 64 bits and of 32: they read little else. */
#define PRODUCTS(NAME, T, C)                                                                                          \
    /* y[i] = sum_p a[p] x[col[p]] for rows lo..hi: short rows overlap by themselves, long ones need four sums */     \
    SCALAR static void long_##NAME(idx lo, idx hi, const idx *restrict ptr, const C *restrict col,                    \
                                   const T *restrict a, const T *restrict x, T *restrict y) {                         \
        for (idx i = lo; i < hi; i++) {                                                                               \
            T s0 = 0, s1 = 0, s2 = 0, s3 = 0;                                                                         \
            const C *c = col + ptr[i];                                                                                \
            const idx n = ptr[i + 1] - ptr[i];                                                                        \
            const T *v = a + ptr[i];                                                                                  \
            idx k = 0;                                                                                                \
            for (; k + 4 <= n; k += 4) {                                                                              \
                s0 += v[k] * x[c[k]];                                                                                 \
                s1 += v[k + 1] * x[c[k + 1]];                                                                         \
                s2 += v[k + 2] * x[c[k + 2]];                                                                         \
                s3 += v[k + 3] * x[c[k + 3]];                                                                         \
            }                                                                                                         \
            for (; k < n; k++) s0 += v[k] * x[c[k]];                                                                  \
            y[i] = (s0 + s1) + (s2 + s3);                                                                             \
        }                                                                                                             \
    }                                                                                                                 \
    SCALAR static void short_##NAME(idx lo, idx hi, const idx *restrict ptr, const C *restrict col,                   \
                                    const T *restrict a, const T *restrict x, T *restrict y) {                        \
        for (idx i = lo; i < hi; i++) {                                                                               \
            if (__builtin_expect(ptr[i + 1] - ptr[i] > 64, 0)) {                                                      \
                long_##NAME(i, i + 1, ptr, col, a, x, y);                                                             \
                continue;                                                                                             \
            }                                                                                                         \
            T s = 0;                                                                                                  \
            for (idx p = ptr[i]; p < ptr[i + 1]; p++) s += a[p] * x[col[p]];                                          \
            y[i] = s;                                                                                                 \
        }                                                                                                             \
    }                                                                                                                 \
    void spmv_##NAME(idx lo, idx hi, idx n, const idx *ptr, const C *col, const T *a, const T *x, T *y) {             \
        (ptr[hi] - ptr[lo] <= 32 * (hi - lo) ? short_##NAME : long_##NAME)(lo, hi, ptr, col, a, x, y);                \
    }                                                                                                                 \
    /* y[col[p]] += a[p] x[i] for rows lo..hi; y starts at zero */                                                    \
    SCALAR void spmvt_##NAME(idx lo, idx hi, idx n, const idx *restrict ptr, const C *restrict col,                   \
                             const T *restrict a, const T *restrict x, T *restrict y) {                               \
        for (idx i = lo; i < hi; i++) {                                                                               \
            const T v = x[i];                                                                                         \
            for (idx p = ptr[i]; p < ptr[i + 1]; p++) y[col[p]] += a[p] * v;                                          \
        }                                                                                                             \
    }

PRODUCTS(float32, float, idx)
PRODUCTS(float64, double, idx)
PRODUCTS(complex64, float complex, idx)
PRODUCTS(complex128, double complex, idx)
PRODUCTS(float32_narrow, float, int32_t)
PRODUCTS(float64_narrow, double, int32_t)
PRODUCTS(complex64_narrow, float complex, int32_t)
PRODUCTS(complex128_narrow, double complex, int32_t)

#define VECTORS(NAME, T)                                                                                              \
    /* bsrmm for one column: dot products of contiguous elements, in sixteen sums where blocks are wide enough */     \
    INLINE void bsrmv_##NAME##_(const int S, idx lo, idx hi, idx bm, idx bn, idx height, idx depth, const idx *ptr,   \
                                const idx *col, const T *restrict a, const T *restrict x, T *restrict y) {            \
        for (idx i = lo; i < hi; i++)                                                                                 \
            for (idx first = 0; first < bm && i * bm + first < height; first += 16) {                                 \
                const idx below = height - i * bm < bm ? height - i * bm : bm, count = below - first;                 \
                const idx rows = count < 16 ? count : 16;                                                             \
                T s[16][16] = {0};                                                                                    \
                for (idx p = ptr[i]; p < ptr[i + 1]; p++) {                                                           \
                    const T *left = a + (p * bm + first) * bn, *right = x + col[p] * bn;                              \
                    const idx width = depth - col[p] * bn < bn ? depth - col[p] * bn : bn;                            \
                    for (idx r = 0; r < rows; r++, left += bn) {                                                      \
                        idx k = 0;                                                                                    \
                        for (; k + S <= width; k += S)                                                                \
                            for (int u = 0; u < S; u++) s[r][u] += left[k + u] * right[k + u];                        \
                        for (; k < width; k++) s[r][0] += left[k] * right[k];                                         \
                    }                                                                                                 \
                }                                                                                                     \
                for (idx r = 0; r < rows; r++) {                                                                      \
                    for (int w = S / 2; w > 0; w /= 2)                                                                \
                        for (int u = 0; u < w; u++) s[r][u] += s[r][u + w];                                           \
                    y[i * bm + first + r] = s[r][0];                                                                  \
                }                                                                                                     \
            }                                                                                                         \
    }                                                                                                                 \
    void bsrmv_##NAME(idx lo, idx hi, idx n, idx bm, idx bn, idx height, idx depth, const idx *ptr, const idx *col,   \
                      const T *a, const T *x, T *y) {                                                                 \
        if (bn >= 16)                                                                                                 \
            bsrmv_##NAME##_(16, lo, hi, bm, bn, height, depth, ptr, col, a, x, y);                                    \
        else                                                                                                          \
            bsrmv_##NAME##_(4, lo, hi, bm, bn, height, depth, ptr, col, a, x, y);                                     \
    }                                                                                                                 \
    /* out[p] = sum_k a[row, k] b[col[p], k] for the entries of rows lo..hi */                                        \
    void sddmm_##NAME(idx lo, idx hi, idx n, const idx *ptr, const idx *col, const T *a, const T *b, T *out) {        \
        for (idx i = lo; i < hi; i++)                                                                                 \
            for (idx p = ptr[i]; p < ptr[i + 1]; p++) {                                                               \
                const T *left = a + i * n, *right = b + col[p] * n;                                                   \
                T s[8] = {0};                                                                                         \
                idx k = 0;                                                                                            \
                for (; k + 8 <= n; k += 8)                                                                            \
                    for (int u = 0; u < 8; u++) s[u] += left[k + u] * right[k + u];                                   \
                for (; k < n; k++) s[0] += left[k] * right[k];                                                        \
                out[p] = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));                           \
            }                                                                                                         \
    }

VECTORS(float32, float)
VECTORS(float64, double)
VECTORS(complex64, float complex)
VECTORS(complex128, double complex)

/* Steps of an iteration on a matrix in compressed rows, all vectors in cache. `image` is scratch. */
#define ITERATE(NAME, R, TINY)                                                                                        \
    INLINE R dot_##NAME(idx n, const R *restrict x, const R *restrict y) {                                            \
        R s[16] = {0};                                                                                                \
        idx j = 0;                                                                                                    \
        for (; j + 16 <= n; j += 16)                                                                                  \
            for (int w = 0; w < 16; w++) s[w] += x[j + w] * y[j + w];                                                 \
        for (; j < n; j++) s[0] += x[j] * y[j];                                                                       \
        for (int w = 8; w > 0; w /= 2)                                                                                \
            for (int u = 0; u < w; u++) s[u] += s[u + w];                                                             \
        return s[0];                                                                                                  \
    }                                                                                                                 \
    void cg_##NAME(idx n, idx steps, const idx *ptr, const idx *col, const R *a, const R *numbers, R *restrict x,     \
                   R *restrict r, R *restrict p, R *restrict image) {                                                 \
        R norm = dot_##NAME(n, r, r);                                                                                 \
        for (idx k = 0; k < steps; k++) {                                                                             \
            spmv_##NAME(0, n, 1, ptr, col, a, p, image);                                                              \
            const R alpha = norm / fmax(dot_##NAME(n, p, image), TINY), last = fmax(norm, TINY);                      \
            for (idx j = 0; j < n; j++) x[j] += alpha * p[j], r[j] -= alpha * image[j];                               \
            norm = dot_##NAME(n, r, r);                                                                               \
            const R beta = norm / last;                                                                               \
            for (idx j = 0; j < n; j++) p[j] = r[j] + beta * p[j];                                                    \
        }                                                                                                             \
    }                                                                                                                 \
    void fixed_##NAME(idx n, idx steps, const idx *ptr, const idx *col, const R *a, const R *numbers, R *restrict x,  \
                      R *restrict r, R *restrict p, R *restrict image) {                                              \
        for (idx k = 0; k < steps; k++) {                                                                             \
            const R alpha = numbers[2 * k], beta = numbers[2 * k + 1];                                                \
            for (idx j = 0; j < n; j++) p[j] = r[j] + beta * p[j];                                                    \
            spmv_##NAME(0, n, 1, ptr, col, a, p, image);                                                              \
            for (idx j = 0; j < n; j++) x[j] += alpha * p[j], r[j] -= alpha * image[j];                               \
        }                                                                                                             \
    }                                                                                                                 \
    void power_##NAME(idx n, idx steps, const idx *ptr, const idx *col, const R *a, const R *numbers, R *restrict x,  \
                      R *restrict r, R *restrict p, R *restrict image) {                                              \
        for (idx k = 0; k < steps; k++) {                                                                             \
            spmv_##NAME(0, n, 1, ptr, col, a, x, r);                                                                  \
            const R norm = fmax(sqrt(dot_##NAME(n, r, r)), TINY);                                                     \
            for (idx j = 0; j < n; j++) x[j] = r[j] / norm;                                                           \
        }                                                                                                             \
        spmv_##NAME(0, n, 1, ptr, col, a, x, r);                                                                      \
    }
ITERATE(float32, float, FLT_MIN)
ITERATE(float64, double, DBL_MIN)

/* A product that was prepared: its function and arguments, and how many bytes of y start at zero. */
typedef void product(idx lo, idx hi, idx n, const idx *ptr, const void *col, const void *a, const void *x, void *y);
typedef void blocks(idx lo, idx hi, idx n, idx bm, idx bn, idx height, idx depth, const idx *ptr, const idx *col,
                    const void *a, const void *x, void *y);
void direct(const idx *made, const void *x, void *y) {
    const idx *ptr = (const idx *)made[3];
    const void *col = (const void *)made[4], *a = (const void *)made[5];
    if (made[6]) memset(y, 0, made[6]);
    if (made[7])
        ((blocks *)made[0])(0, made[1], made[2], made[7], made[8], made[9], made[10], ptr, col, a, x, y);
    else
        ((product *)made[0])(0, made[1], made[2], ptr, col, a, x, y);
}

/* y = alpha y + beta c, c left out where it is null */
#define BLEND(NAME, R)                                                                                                \
    void blend_##NAME(idx n, double alpha, double beta, const R *restrict c, R *restrict y) {                         \
        const R first = (R)alpha, second = (R)beta;                                                                   \
        if (c)                                                                                                        \
            for (idx j = 0; j < n; j++) y[j] = first * y[j] + second * c[j];                                          \
        else                                                                                                          \
            for (idx j = 0; j < n; j++) y[j] *= first;                                                                \
    }
BLEND(float32, float)
BLEND(float64, double)
