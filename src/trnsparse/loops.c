/* Host loops over compressed rows, written once for four dtypes and included by macro. */
#include <complex.h>
#include <math.h>
#include <stdint.h>

typedef int64_t idx;

/* Loads that jump about are faster one by one than gathered, and faster in the order of a generic processor. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__)
#define SCALAR __attribute__((target("tune=generic"), optimize("no-tree-vectorize,no-tree-slp-vectorize")))
#else
#define SCALAR
#endif

#define LOOPS(NAME, T)                                                                                            \
    /* y[i] = sum_p a[p] x[col[p]] for rows lo..hi */                                                             \
    SCALAR void spmv_##NAME(idx lo, idx hi, const idx *restrict ptr, const idx *restrict col,                     \
                            const T *restrict a, const T *restrict x, T *restrict y) {                            \
        for (idx i = lo; i < hi; i++) {                                                                           \
            T s0 = 0, s1 = 0, s2 = 0, s3 = 0;                                                                     \
            const idx *c = col + ptr[i], n = ptr[i + 1] - ptr[i];                                                 \
            const T *v = a + ptr[i];                                                                              \
            idx k = 0;                                                                                            \
            for (; k + 8 <= n; k += 8) {                                                                          \
                s0 += v[k] * x[c[k]];                                                                             \
                s1 += v[k + 1] * x[c[k + 1]];                                                                     \
                s2 += v[k + 2] * x[c[k + 2]];                                                                     \
                s3 += v[k + 3] * x[c[k + 3]];                                                                     \
                s0 += v[k + 4] * x[c[k + 4]];                                                                     \
                s1 += v[k + 5] * x[c[k + 5]];                                                                     \
                s2 += v[k + 6] * x[c[k + 6]];                                                                     \
                s3 += v[k + 7] * x[c[k + 7]];                                                                     \
            }                                                                                                     \
            for (; k < n; k++) s0 += v[k] * x[c[k]];                                                              \
            y[i] = (s0 + s1) + (s2 + s3);                                                                         \
        }                                                                                                         \
    }                                                                                                             \
    /* y[i, :] = sum_p a[p] x[col[p], :] for rows lo..hi, rows of x and y of n contiguous elements */             \
    void spmm_##NAME(idx lo, idx hi, idx n, const idx *ptr, const idx *col, const T *restrict a,                  \
                     const T *restrict x, T *restrict y) {                                                        \
        for (idx i = lo; i < hi; i++) {                                                                           \
            T *restrict row = y + i * n;                                                                          \
            for (idx j = 0; j < n; j++) row[j] = 0;                                                               \
            idx p = ptr[i], end = ptr[i + 1];                                                                     \
            for (; p + 8 <= end; p += 8) {                                                                        \
                const T a0 = a[p], a1 = a[p + 1], a2 = a[p + 2], a3 = a[p + 3];                                   \
                const T a4 = a[p + 4], a5 = a[p + 5], a6 = a[p + 6], a7 = a[p + 7];                               \
                const T *restrict x0 = x + col[p] * n, *restrict x1 = x + col[p + 1] * n;                         \
                const T *restrict x2 = x + col[p + 2] * n, *restrict x3 = x + col[p + 3] * n;                     \
                const T *restrict x4 = x + col[p + 4] * n, *restrict x5 = x + col[p + 5] * n;                     \
                const T *restrict x6 = x + col[p + 6] * n, *restrict x7 = x + col[p + 7] * n;                     \
                for (idx j = 0; j < n; j++)                                                                       \
                    row[j] += ((a0 * x0[j] + a1 * x1[j]) + (a2 * x2[j] + a3 * x3[j])) +                           \
                              ((a4 * x4[j] + a5 * x5[j]) + (a6 * x6[j] + a7 * x7[j]));                            \
            }                                                                                                     \
            for (; p < end; p++) {                                                                                \
                const T v = a[p];                                                                                 \
                const T *restrict from = x + col[p] * n;                                                          \
                for (idx j = 0; j < n; j++) row[j] += v * from[j];                                                \
            }                                                                                                     \
        }                                                                                                         \
    }                                                                                                             \
    /* y[col[p], :] += a[p] x[i, :] over all rows: the transpose without forming it; y starts at zero */          \
    void spmmt_##NAME(idx rows, idx n, const idx *ptr, const idx *col, const T *restrict a, const T *restrict x,  \
                      T *restrict y) {                                                                            \
        for (idx i = 0; i < rows; i++)                                                                            \
            for (idx p = ptr[i]; p < ptr[i + 1]; p++) {                                                           \
                const T v = a[p];                                                                                 \
                const T *restrict from = x + i * n;                                                               \
                T *restrict row = y + col[p] * n;                                                                 \
                for (idx j = 0; j < n; j++) row[j] += v * from[j];                                                \
            }                                                                                                     \
    }                                                                                                             \
    /* out[p] = sum_k a[row, k] b[col[p], k] for the entries of rows lo..hi */                                    \
    void sddmm_##NAME(idx lo, idx hi, idx n, const idx *ptr, const idx *col, const T *a, const T *b, T *out) {    \
        for (idx i = lo; i < hi; i++)                                                                             \
            for (idx p = ptr[i]; p < ptr[i + 1]; p++) {                                                           \
                const T *left = a + i * n, *right = b + col[p] * n;                                               \
                T s[8] = {0};                                                                                     \
                idx k = 0;                                                                                        \
                for (; k + 8 <= n; k += 8)                                                                        \
                    for (int u = 0; u < 8; u++) s[u] += left[k + u] * right[k + u];                               \
                for (; k < n; k++) s[0] += left[k] * right[k];                                                    \
                out[p] = ((s[0] + s[1]) + (s[2] + s[3])) + ((s[4] + s[5]) + (s[6] + s[7]));                       \
            }                                                                                                     \
    }                                                                                                             \
    /* x = b solved in place, row by row; diag[i] is the position of the diagonal, or unit. Returns the first row \
       with a zero diagonal, or -1. */                                                                            \
    idx trsm_##NAME(idx n, idx k, int lower, int unit, const idx *ptr, const idx *col, const T *a, T *x) {        \
        for (idx step = 0; step < n; step++) {                                                                    \
            idx i = lower ? step : n - 1 - step;                                                                  \
            T d = unit ? 1 : 0;                                                                                   \
            T *restrict row = x + i * k;                                                                          \
            for (idx p = ptr[i]; p < ptr[i + 1]; p++) {                                                           \
                idx c = col[p];                                                                                   \
                if (c == i) {                                                                                     \
                    if (!unit) d = a[p];                                                                          \
                } else if (lower ? c < i : c > i) {                                                               \
                    const T v = a[p];                                                                             \
                    const T *restrict from = x + c * k;                                                           \
                    for (idx j = 0; j < k; j++) row[j] -= v * from[j];                                            \
                }                                                                                                 \
            }                                                                                                     \
            if (d == 0) return i;                                                                                 \
            if (!unit)                                                                                            \
                for (idx j = 0; j < k; j++) row[j] /= d;                                                          \
        }                                                                                                         \
        return -1;                                                                                                \
    }                                                                                                             \
    /* Incomplete LU on the pattern, in place. `place` holds n entries of -1. */                                  \
    idx ilu0_##NAME(idx n, const idx *ptr, const idx *col, T *a, idx *place, idx *diag) {                         \
        for (idx i = 0; i < n; i++) {                                                                             \
            diag[i] = -1;                                                                                         \
            for (idx p = ptr[i]; p < ptr[i + 1]; p++) {                                                           \
                place[col[p]] = p;                                                                                \
                if (col[p] == i) diag[i] = p;                                                                     \
            }                                                                                                     \
            for (idx p = ptr[i]; p < ptr[i + 1] && col[p] < i; p++) {                                             \
                idx j = col[p];                                                                                   \
                const T f = a[p] /= a[diag[j]];                                                                   \
                for (idx q = diag[j] + 1; q < ptr[j + 1]; q++)                                                    \
                    if (place[col[q]] >= 0) a[place[col[q]]] -= f * a[q];                                         \
            }                                                                                                     \
            for (idx p = ptr[i]; p < ptr[i + 1]; p++) place[col[p]] = -1;                                         \
            if (diag[i] < 0 || a[diag[i]] == 0) return i;                                                         \
        }                                                                                                         \
        return -1;                                                                                                \
    }

LOOPS(float32, float)
LOOPS(float64, double)
LOOPS(complex64, float complex)
LOOPS(complex128, double complex)

/* Incomplete Cholesky on the lower pattern, in place: row i of L from rows before it. `place` holds n entries of -1. */
#define CHOLESKY(NAME, T, REAL, CONJ, RE)                                                                         \
    idx ic0_##NAME(idx n, const idx *ptr, const idx *col, T *a, idx *place) {                                     \
        for (idx i = 0; i < n; i++) {                                                                             \
            idx last = ptr[i + 1] - 1;                                                                            \
            if (last < ptr[i] || col[last] != i) return i;                                                        \
            for (idx p = ptr[i]; p <= last; p++) place[col[p]] = p;                                               \
            for (idx p = ptr[i]; p < last; p++) {                                                                 \
                idx j = col[p], end = ptr[j + 1] - 1;                                                             \
                T s = a[p];                                                                                       \
                for (idx q = ptr[j]; q < end; q++)                                                                \
                    if (place[col[q]] >= 0) s -= a[place[col[q]]] * CONJ(a[q]);                                   \
                a[p] = s / a[end];                                                                                \
            }                                                                                                     \
            REAL d = RE(a[last]);                                                                                 \
            for (idx p = ptr[i]; p < last; p++) d -= RE(a[p] * CONJ(a[p]));                                       \
            for (idx p = ptr[i]; p <= last; p++) place[col[p]] = -1;                                              \
            if (!(d > 0)) return i;                                                                               \
            a[last] = sqrt(d);                                                                                    \
        }                                                                                                         \
        return -1;                                                                                                \
    }
#define SAME(x) (x)
CHOLESKY(float32, float, float, SAME, SAME)
CHOLESKY(float64, double, double, SAME, SAME)
CHOLESKY(complex64, float complex, float, conjf, crealf)
CHOLESKY(complex128, double complex, double, conj, creal)
