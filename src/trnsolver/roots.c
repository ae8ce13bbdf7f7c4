/* Functions of upper triangular complex matrices, and the way to them from a real Schur form.
 *
 * Matrices come by rows, real and imaginary parts in turn. Inside they lie by columns, the parts apart: every step is
 * one column subtracted from another, which vectorises. */

#include <complex.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

typedef double complex number;

static number over(number p, number q) { /* p / q without C's care for infinities, and without overflow */
  double c = creal(q), d = cimag(q), a = creal(p), b = cimag(p);
  if (fabs(c) >= fabs(d)) {
    double r = d / c, s = c + d * r;
    return CMPLX((a + b * r) / s, (b - a * r) / s);
  }
  double r = c / d, s = c * r + d;
  return CMPLX((a * r + b) / s, (b * r - a) / s);
}

static void apart(int64_t n, const number *by_rows, double *re, double *im) {
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = i; j < n; j++) re[j * n + i] = creal(by_rows[i * n + j]), im[j * n + i] = cimag(by_rows[i * n + j]);
}

static void together(int64_t n, const double *re, const double *im, number *by_rows) {
  for (int64_t i = 0; i < n; i++)
    for (int64_t j = 0; j < n; j++) by_rows[i * n + j] = j < i ? 0 : CMPLX(re[j * n + i], im[j * n + i]);
}

/* x[0:k] -= (p + iq) c[0:k] */
static void subtract(int64_t k, double p, double q, const double *cr, const double *ci, double *restrict xr,
                     double *restrict xi) {
  for (int64_t i = 0; i < k; i++) {
    xr[i] -= p * cr[i] - q * ci[i];
    xi[i] -= p * ci[i] + q * cr[i];
  }
}

/* The root r of t, whose diagonal is given: r_ij (r_ii + r_jj) = t_ij - sum of r_ik r_kj (Bjorck and Hammarling).
 * Returns 0; or the column, from 1, where r_ii + r_jj is zero and what it should divide is larger than tiny; or -1
 * where there was no memory. */
int64_t sqrt_triangular(int64_t n, const number *t, const number *diagonal, double tiny, number *out) {
  double *re = malloc(2 * n * n * sizeof *re), *im = re + n * n;
  if (!re) return -1;
  apart(n, t, re, im);
  for (int64_t j = 0; j < n; j++) {
    double *xr = re + j * n, *xi = im + j * n;
    xr[j] = creal(diagonal[j]), xi[j] = cimag(diagonal[j]);
    for (int64_t k = j - 1; k >= 0; k--) {
      number sum = diagonal[k] + diagonal[j], x = CMPLX(xr[k], xi[k]);
      if (sum == 0) {
        if (hypot(xr[k], xi[k]) > tiny) {
          free(re);
          return j + 1;
        }
        x = 0;
      } else x = over(x, sum);
      xr[k] = creal(x), xi[k] = cimag(x);
      subtract(k, xr[k], xi[k], re + k * n, im + k * n, xr, xi);
    }
  }
  together(n, re, im, out);
  free(re);
  return 0;
}

/* out = sum over m of weights[m] (1 + nodes[m] x)^-1 x. Returns 0, or -1 where there was no memory. */
int64_t quotients_triangular(int64_t n, int64_t terms, const double *nodes, const double *weights, const number *x,
                             number *out) {
  double *re = malloc((4 * n * n + 2 * n) * sizeof *re);
  if (!re) return -1;
  double *im = re + n * n, *sr = im + n * n, *si = sr + n * n, *yr = si + n * n, *yi = yr + n;
  apart(n, x, re, im);
  for (int64_t j = 0; j < n; j++) {
    for (int64_t i = 0; i <= j; i++) sr[j * n + i] = si[j * n + i] = 0;
    for (int64_t m = 0; m < terms; m++) {
      for (int64_t i = 0; i <= j; i++) yr[i] = re[j * n + i], yi[i] = im[j * n + i];
      for (int64_t k = j; k >= 0; k--) {
        number y = over(CMPLX(yr[k], yi[k]), 1 + nodes[m] * CMPLX(re[k * n + k], im[k * n + k]));
        yr[k] = creal(y), yi[k] = cimag(y);
        subtract(k, nodes[m] * yr[k], nodes[m] * yi[k], re + k * n, im + k * n, yr, yi);
      }
      for (int64_t i = 0; i <= j; i++) sr[j * n + i] += weights[m] * yr[i], si[j * n + i] += weights[m] * yi[i];
    }
  }
  together(n, sr, si, out);
  free(re);
  return 0;
}

/* Rows k-1 and k by [[conj c, conj s], [-s, c]] from the left, columns by its inverse from the right. */
static void turn(int64_t n, int64_t k, number c, number s, int64_t first, int64_t last, number *t) {
  number *up = t + (k - 1) * n, *down = t + k * n;
  for (int64_t j = first; j < n; j++) {
    number p = up[j], q = down[j];
    up[j] = conj(c) * p + conj(s) * q, down[j] = c * q - s * p;
  }
  for (int64_t i = 0; i < last; i++) {
    number *row = t + i * n + k - 1, p = row[0], q = row[1];
    row[0] = p * c + q * s, row[1] = q * conj(c) - p * conj(s);
  }
}

/* A real Schur form, given as complex numbers, becomes triangular: each block of two rows is turned. turns: c and s of
 * each row, s zero where nothing was turned. */
void triangularise(int64_t n, number *t, number *turns) {
  for (int64_t k = 0; k < n; k++) turns[k] = 1, turns[n + k] = 0;
  for (int64_t k = n - 1; k > 0; k--) {
    number below = t[k * n + k - 1];
    if (below == 0) continue;
    number half = (t[(k - 1) * n + k - 1] - t[k * n + k]) / 2;
    number shift = half + csqrt(half * half + t[(k - 1) * n + k] * below); /* an eigenvalue less the last entry */
    double size = hypot(cabs(shift), cabs(below));
    turns[k] = shift / size, turns[n + k] = below / size;
    turn(n, k, turns[k], turns[n + k], k - 1, k + 1, t);
    t[k * n + k - 1] = 0;
  }
}

/* The way back, for a function of the triangular matrix. */
void turn_back(int64_t n, number *t, const number *turns) {
  for (int64_t k = 1; k < n; k++)
    if (turns[n + k] != 0) turn(n, k, conj(turns[k]), -turns[n + k], 0, n, t);
}
