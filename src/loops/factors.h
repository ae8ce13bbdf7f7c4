/* Incomplete factors on compressed rows whose columns are in order, written once for four dtypes. */

#ifndef LOOPS_FACTORS_H
#define LOOPS_FACTORS_H

#include <complex.h>
#include <math.h>
#include <stdint.h>

/* Complex products without the standard's detour for infinities, quotients scaled: what BLAS and NumPy compute. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("cx-fortran-rules")
#endif

typedef int64_t idx;

#define FACTORS(NAME, T)                                                                                              \
    /* Rows from `from` to n of incomplete LU on the pattern, in place. `place` holds entries of -1. A pivot whose    \
       magnitude is at most the first of `boost` becomes the second. */                                                                        \
    static idx ilu0_##NAME(idx from, idx n, const idx *ptr, const idx *col, T *a, idx *place, idx *diag, const T *boost) {             \
        for (idx i = from; i < n; i++) {                                                                              \
            diag[i] = -1;                                                                                             \
            for (idx p = ptr[i]; p < ptr[i + 1]; p++) {                                                               \
                place[col[p]] = p;                                                                                    \
                if (col[p] == i) diag[i] = p;                                                                         \
            }                                                                                                         \
            for (idx p = ptr[i]; p < ptr[i + 1] && col[p] < i; p++) {                                                 \
                idx j = col[p];                                                                                       \
                const T f = a[p] /= a[diag[j]];                                                                       \
                for (idx q = diag[j] + 1; q < ptr[j + 1]; q++)                                                        \
                    if (place[col[q]] >= 0) a[place[col[q]]] -= f * a[q];                                             \
            }                                                                                                         \
            for (idx p = ptr[i]; p < ptr[i + 1]; p++) place[col[p]] = -1;                                             \
            if (diag[i] >= 0 && boost && cabs(a[diag[i]]) <= creal(boost[0])) a[diag[i]] = boost[1];                  \
            if (diag[i] < 0 || a[diag[i]] == 0) return i;                                                             \
        }                                                                                                             \
        return -1;                                                                                                    \
    }

FACTORS(float32, float)
FACTORS(float64, double)
FACTORS(complex64, float complex)
FACTORS(complex128, double complex)

/* Incomplete Cholesky on the lower pattern likewise: row i of L from rows before it. */
#define CHOLESKY(NAME, T, REAL, CONJ, RE)                                                                             \
    static idx ic0_##NAME(idx from, idx n, const idx *ptr, const idx *col, T *a, idx *place) {                                         \
        for (idx i = from; i < n; i++) {                                                                              \
            idx last = ptr[i + 1] - 1;                                                                                \
            if (last < ptr[i] || col[last] != i) return i;                                                            \
            for (idx p = ptr[i]; p <= last; p++) place[col[p]] = p;                                                   \
            for (idx p = ptr[i]; p < last; p++) {                                                                     \
                idx j = col[p], end = ptr[j + 1] - 1;                                                                 \
                T s = a[p];                                                                                           \
                for (idx q = ptr[j]; q < end; q++)                                                                    \
                    if (place[col[q]] >= 0) s -= a[place[col[q]]] * CONJ(a[q]);                                       \
                a[p] = s / a[end];                                                                                    \
            }                                                                                                         \
            REAL d = RE(a[last]);                                                                                     \
            for (idx p = ptr[i]; p < last; p++) d -= RE(a[p] * CONJ(a[p]));                                           \
            for (idx p = ptr[i]; p <= last; p++) place[col[p]] = -1;                                                  \
            if (!(d > 0)) return i;                                                                                   \
            a[last] = sqrt(d);                                                                                        \
        }                                                                                                             \
        return -1;                                                                                                    \
    }
#define SAME(x) (x)
CHOLESKY(float32, float, float, SAME, SAME)
CHOLESKY(float64, double, double, SAME, SAME)
CHOLESKY(complex64, float complex, float, conjf, crealf)
CHOLESKY(complex128, double complex, double, conj, creal)

#endif
