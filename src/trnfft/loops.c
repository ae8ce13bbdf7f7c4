/* What goes around a complex transform of half the length: real transforms, and cosine and sine transforms of type 2
   and 3, in one pass over the data on each side. Complex numbers are pairs; n = 2 m. */

#include <stdint.h>

typedef int64_t idx;

#define LOOPS(NAME, T)                                                                                               \
    /* X[k] of the real sequence whose pairs have the spectrum z; w[k] = exp(-2 pi i k / n) */                       \
    static inline void split_##NAME(const T *z, const T *w, idx m, idx k, T *re, T *im) {                            \
        idx r = k ? m - k : 0;                                                                                       \
        T er = z[2 * k] + z[2 * r], ei = z[2 * k + 1] - z[2 * r + 1];                                                \
        T or = z[2 * k + 1] + z[2 * r + 1], oi = z[2 * r] - z[2 * k];                                                \
        *re = (T)0.5 * (er + w[2 * k] * or - w[2 * k + 1] * oi);                                                     \
        *im = (T)0.5 * (ei + w[2 * k] * oi + w[2 * k + 1] * or);                                                     \
    }                                                                                                                \
    void r2c_##NAME(idx rows, idx m, const T *restrict z, const T *restrict w, double scale, T *restrict out) {      \
        for (idx row = 0; row < rows; row++, z += 2 * m, out += 2 * m + 2) {                                         \
            for (idx k = 0; k < m; k++) {                                                                            \
                T re, im;                                                                                            \
                split_##NAME(z, w, m, k, &re, &im);                                                                  \
                out[2 * k] = (T)scale * re;                                                                          \
                out[2 * k + 1] = (T)scale * im;                                                                      \
            }                                                                                                        \
            out[2 * m] = (T)scale * (z[0] - z[1]);                                                                   \
            out[2 * m + 1] = 0;                                                                                      \
        }                                                                                                            \
    }                                                                                                                \
    /* The pairs whose inverse transform of m points is that of the half spectrum x [m + 1], n times */              \
    void c2r_##NAME(idx rows, idx m, const T *restrict x, const T *restrict w, double scale, T *restrict z) {        \
        for (idx row = 0; row < rows; row++, x += 2 * m + 2, z += 2 * m) {                                           \
            z[0] = (T)scale * (x[0] + x[2 * m]);                                                                     \
            z[1] = (T)scale * (x[0] - x[2 * m]);                                                                     \
            for (idx k = 1; k < m; k++) {                                                                            \
                idx r = m - k;                                                                                       \
                T er = x[2 * k] + x[2 * r], ei = x[2 * k + 1] - x[2 * r + 1];                                        \
                T dr = x[2 * k] - x[2 * r], di = x[2 * k + 1] + x[2 * r + 1];                                        \
                T or = w[2 * k] * dr + w[2 * k + 1] * di, oi = w[2 * k] * di - w[2 * k + 1] * dr;                    \
                z[2 * k] = (T)scale * (er - oi);                                                                     \
                z[2 * k + 1] = (T)scale * (ei + or);                                                                 \
            }                                                                                                        \
        }                                                                                                            \
    }                                                                                                                \
    /* Even terms forward, odd ones backward; for sines the odd ones change their sign */                            \
    void fold_##NAME(idx rows, idx n, int sine, const T *restrict x, T *restrict v) {                                \
        const T sign = sine ? -1 : 1;                                                                                \
        for (idx row = 0; row < rows; row++, x += n, v += n)                                                         \
            for (idx j = 0; j < n / 2; j++) {                                                                        \
                v[j] = x[2 * j];                                                                                     \
                v[n - 1 - j] = sign * x[2 * j + 1];                                                                  \
            }                                                                                                        \
    }                                                                                                                \
    void unfold_##NAME(idx rows, idx n, int sine, const T *restrict v, T *restrict x) {                              \
        const T sign = sine ? -1 : 1;                                                                                \
        for (idx row = 0; row < rows; row++, x += n, v += n)                                                         \
            for (idx j = 0; j < n / 2; j++) {                                                                        \
                x[2 * j] = v[j];                                                                                     \
                x[2 * j + 1] = sign * v[n - 1 - j];                                                                  \
            }                                                                                                        \
    }                                                                                                                \
    /* Type 2 from the spectrum of the folded pairs; p[k] = exp(-pi i k / 2 n); for sines the result is reversed */  \
    void type2_##NAME(idx rows, idx m, int sine, const T *restrict z, const T *restrict w, const T *restrict p,      \
                      double scale, T *restrict y) {                                                                 \
        const idx n = 2 * m, first = sine ? n - 1 : 0, step = sine ? -1 : 1;                                         \
        const T twice = (T)(2 * scale);                                                                              \
        for (idx row = 0; row < rows; row++, z += n, y += n) {                                                       \
            y[first] = twice * (z[0] + z[1]);                                                                        \
            for (idx k = 1; k < m; k++) {                                                                            \
                T re, im;                                                                                            \
                split_##NAME(z, w, m, k, &re, &im);                                                                  \
                y[first + step * k] = twice * (p[2 * k] * re - p[2 * k + 1] * im);                                   \
                y[first + step * (n - k)] = -twice * (p[2 * k] * im + p[2 * k + 1] * re);                            \
            }                                                                                                        \
            y[first + step * m] = twice * p[2 * m] * (z[0] - z[1]);                                                  \
        }                                                                                                            \
    }                                                                                                                \
    /* The pairs whose inverse transform, unfolded, is type 3 */                                                     \
    void type3_##NAME(idx rows, idx m, int sine, const T *restrict x, const T *restrict w, const T *restrict p,      \
                      double scale, T *restrict z) {                                                                 \
        const idx n = 2 * m, first = sine ? n - 1 : 0, step = sine ? -1 : 1;                                         \
        const T factor = (T)scale;                                                                                   \
        for (idx row = 0; row < rows; row++, x += n, z += n) {                                                       \
            const T *at = x + first;                                                                                 \
            T last = 2 * p[2 * m] * at[step * m];                                                                    \
            z[0] = factor * (at[0] + last);                                                                          \
            z[1] = factor * (at[0] - last);                                                                          \
            for (idx k = 1; k < m; k++) {                                                                            \
                idx r = m - k;                                                                                       \
                T a = at[step * k], b = at[step * (n - k)], c = at[step * r], d = at[step * (n - r)];                \
                T kr = p[2 * k] * a - p[2 * k + 1] * b, ki = -p[2 * k] * b - p[2 * k + 1] * a;                       \
                T rr = p[2 * r] * c - p[2 * r + 1] * d, ri = -p[2 * r] * d - p[2 * r + 1] * c;                       \
                T er = kr + rr, ei = ki - ri, dr = kr - rr, di = ki + ri;                                            \
                T or = w[2 * k] * dr + w[2 * k + 1] * di, oi = w[2 * k] * di - w[2 * k + 1] * dr;                    \
                z[2 * k] = factor * (er - oi);                                                                       \
                z[2 * k + 1] = factor * (ei + or);                                                                   \
            }                                                                                                        \
        }                                                                                                            \
    }

LOOPS(float32, float)
LOOPS(float64, double)
