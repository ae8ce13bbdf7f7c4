/* Words to numbers, and the functions distributions need.

   Only additions, subtractions, multiplications, divisions and square roots, each rounded once (the build forbids
   contraction), so that trnrand/maths.py, which does the same steps in torch, gives the same bits on any device. */

#ifndef LOOPS_NUMBERS_H
#define LOOPS_NUMBERS_H

#include <math.h>
#include <stdint.h>
#include <string.h>

static inline double half_open(uint32_t low, uint32_t high) { /* [0, 1), 53 bits */
  return (double)((((uint64_t)high << 32) | low) >> 11) * 0x1p-53;
}

static inline double open_unit(uint32_t low, uint32_t high) { /* (0, 1), 52 bits and a half */
  return ((double)((((uint64_t)high << 32) | low) >> 12) + 0.5) * 0x1p-52;
}

/* x as an integer, and the least one for what no int64 holds, NaN included */
static inline int64_t integer(double x) { return x >= -0x1p63 && x < 0x1p63 ? (int64_t)x : INT64_MIN; }

static inline float unit_open_low(uint32_t word) { /* (0, 1], 24 bits */
  return (float)((word >> 8) + 1) * 0x1p-24f;
}

/* floor(x), in steps that every compiler turns into vector instructions */
static inline double floor64(double x) {
  double shift = x < 0.0 ? -0x1p52 : 0x1p52, near = (x + shift) - shift;
  near = near > x ? near - 1.0 : near;
  return fabs(x) < 0x1p52 ? near : x;
}

/* ln(x) for x = k * 2^-24, 0 < k <= 2^24: exponent and a degree-9 polynomial on [sqrt(1/2), sqrt(2)) */
static inline float log32(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  uint32_t shifted = bits - 0x3F3504F3u;
  int32_t e = (int32_t)shifted >> 23;
  uint32_t mantissa = (shifted & 0x7FFFFFu) + 0x3F3504F3u;
  float m;
  memcpy(&m, &mantissa, 4);
  float t = m - 1.0f, z = t * t, k = (float)e;
  float p = 7.0376836292e-2f;
  p = p * t + -1.1514610310e-1f;
  p = p * t + 1.1676998740e-1f;
  p = p * t + -1.2420140846e-1f;
  p = p * t + 1.4249322787e-1f;
  p = p * t + -1.6668057665e-1f;
  p = p * t + 2.0000714765e-1f;
  p = p * t + -2.4999993993e-1f;
  p = p * t + 3.3333331174e-1f;
  float y = p * t;
  y = y * z;
  y = y + k * -2.12194440e-4f;
  y = y - 0.5f * z;
  float r = t + y;
  return r + k * 0.693359375f;
}

/* sin and cos of 2 pi k / 2^24 for an integer k: exact reduction to an eighth of a turn, then polynomials */
static inline void turn32(uint32_t k, float *s, float *c) {
  int32_t eighth = (int32_t)((k + (1u << 21)) >> 22) & 3; /* nearest quarter turn */
  int32_t rest = (int32_t)((k << 8) - ((uint32_t)eighth << 30));
  rest >>= 8; /* in [-2^21, 2^21): an angle within pi/4 */
  float a = (float)rest * 3.745070282923929e-7f; /* 2 pi / 2^24 */
  float z = a * a;
  float ps = -1.9515295891e-4f;
  ps = ps * z + 8.3321608736e-3f;
  ps = ps * z + -1.6666654611e-1f;
  float sine = ps * z;
  sine = sine * a + a;
  float pc = 2.443315711809948e-5f;
  pc = pc * z + -1.388731625493765e-3f;
  pc = pc * z + 4.166664568298827e-2f;
  float cosine = pc * z;
  cosine = cosine * z;
  cosine = cosine - 0.5f * z;
  cosine = cosine + 1.0f;
  float first = eighth & 1 ? cosine : sine, second = eighth & 1 ? sine : cosine;
  *s = eighth & 2 ? -first : first;
  *c = (eighth + 1) & 2 ? -second : second;
}

/* ln(x) of a positive normal double: x = 2^k (1 + f), then the series of atanh(f / (2 + f)) */
static inline double log64(double x) {
  uint64_t bits;
  memcpy(&bits, &x, 8);
  uint64_t shifted = bits - 0x3FE6A09E667F3BCD;
  uint64_t mantissa = (shifted & 0xFFFFFFFFFFFFF) + 0x3FE6A09E667F3BCD;
  double m, k = (double)((int64_t)shifted >> 52);
  memcpy(&m, &mantissa, 8);
  double f = m - 1.0, s = f / (2.0 + f), z = s * s;
  double p = 1.479819860511658591e-01;
  p = p * z + 1.531383769920937332e-01;
  p = p * z + 1.818357216161805012e-01;
  p = p * z + 2.222219843214978396e-01;
  p = p * z + 2.857142874366239149e-01;
  p = p * z + 3.999999999940941908e-01;
  p = p * z + 6.666666666666735130e-01;
  p = p * z;
  double half = 0.5 * f * f;
  double y = s * (half + p);
  y = y + k * 1.90821492927058770002e-10;
  y = half - y;
  y = y - f;
  return k * 6.93147180369123816490e-01 - y;
}

/* exp(x), subnormal and infinite results included: the power of two comes in two factors, each a normal number */
static inline double exp64(double x) {
  double limited = x < -746.0 ? -746.0 : x > 710.0 ? 710.0 : x;
  double k = limited * 1.44269504088896338700 + 6755399441055744.0;
  k = k - 6755399441055744.0;
  double hi = limited - k * 6.93147180369123816490e-01, lo = k * 1.90821492927058770002e-10;
  double r = hi - lo, t = r * r;
  double p = 4.13813679705723846039e-08;
  p = p * t + -1.65339022054652515390e-06;
  p = p * t + 6.61375632143793436117e-05;
  p = p * t + -2.77777777770155933842e-03;
  p = p * t + 1.66666666666666019037e-01;
  double c = r - p * t;
  double y = r * c;
  y = y / (2.0 - c);
  y = lo - y;
  y = y - hi;
  y = 1.0 - y;
  int64_t whole = k == k ? (int64_t)k : 0, half = whole >> 1; /* of a NaN, which y keeps */
  uint64_t first = (uint64_t)(half + 1023) << 52, second = (uint64_t)(whole - half + 1023) << 52;
  double a, b;
  memcpy(&a, &first, 8);
  memcpy(&b, &second, 8);
  return y * a * b;
}

/* sin and cos of 2 pi t for 0 <= t < 1: exact reduction to an eighth of a turn, then polynomials */
static inline void turn64(double t, double *s, double *c) {
  double scaled = 4.0 * t;
  double quarter = scaled + 6755399441055744.0;
  quarter = quarter - 6755399441055744.0;
  double a = (scaled - quarter) * 1.57079632679489661923;
  int64_t q = integer(quarter);
  double z = a * a;
  double ps = 1.58969099521155010221e-10;
  ps = ps * z + -2.50507602534068634195e-08;
  ps = ps * z + 2.75573137070700676789e-06;
  ps = ps * z + -1.98412698298579493134e-04;
  ps = ps * z + 8.33333333332248946124e-03;
  ps = ps * z + -1.66666666666666324348e-01;
  double sine = ps * z;
  sine = sine * a + a;
  double pc = -1.13596475577881948265e-11;
  pc = pc * z + 2.08757232129817482790e-09;
  pc = pc * z + -2.75573143513906633035e-07;
  pc = pc * z + 2.48015872894767294178e-05;
  pc = pc * z + -1.38888888888741095749e-03;
  pc = pc * z + 4.16666666666666019037e-02;
  double cosine = pc * z;
  cosine = cosine * z;
  cosine = cosine - 0.5 * z;
  cosine = cosine + 1.0;
  double first = q & 1 ? cosine : sine, second = q & 1 ? sine : cosine;
  *s = q & 2 ? -first : first;
  *c = (q + 1) & 2 ? -second : second;
}

/* ln(n!) - ln(sqrt(2 pi n) (n / e)^n), n >= 1 */
static inline double stirling_error(double n) {
  static const double table[16] = {
      0.0, 0.08106146679532726, 0.0413406959554093, 0.02767792568499834, 0.020790672103765093, 0.016644691189821193,
      0.013876128823070748, 0.01189670994589177, 0.010411265261972096, 0.009255462182712733, 0.00833056343336287,
      0.007573675487951841, 0.00694284010720953, 0.006408994188004207, 0.0059513701127588475, 0.005554733551962801};
  if (n <= 15.0) return table[n > 0.0 ? (int)n : 0];
  double square = n * n;
  double p = 1.0 / 1188.0;
  p = 1.0 / 1680.0 - p / square;
  p = 1.0 / 1260.0 - p / square;
  p = 1.0 / 360.0 - p / square;
  p = 1.0 / 12.0 - p / square;
  return p / n;
}

/* x ln(x / m) + m - x without cancellation near x = m (Loader's saddle-point deviance) */
static inline double deviance(double x, double m) {
  double gap = x - m, sum = x + m;
  if (fabs(gap) < 0.1 * sum) {
    double v = gap / sum, total = gap * v, term = 2.0 * x * v, square = v * v;
    for (int j = 1; j <= 10; j++) {
      term = term * square;
      double more = total + term / (double)(2 * j + 1);
      if (more == total) break; /* later terms are smaller still */
      total = more;
    }
    return total;
  }
  return x * log64(x / m) - gap;
}

/* ln of the Poisson probability of k >= 0 */
static inline double log_poisson(double k, double rate) {
  if (k == 0.0) return -rate;
  double y = -stirling_error(k) - deviance(k, rate);
  return y - 0.5 * log64(6.283185307179586477 * k);
}

/* ln(1 - p), as precise for tiny p as for others */
static inline double log_complement(double p) {
  double rest = 1.0 - p, lost = 1.0 - rest;
  return lost == 0.0 ? -p : log64(rest) * (p / lost);
}

/* ln of the binomial probability of k of n */
static inline double log_binomial(double k, double n, double p, double q) {
  double rest = n - k;
  if (rest == 0.0) return n * log64(p < 1e-300 ? 1e-300 : p);
  if (k == 0.0) return n * log_complement(p);
  double y = stirling_error(n) - stirling_error(k) - stirling_error(rest);
  y = y - deviance(k, n * p) - deviance(rest, n * q);
  return y + 0.5 * log64(n / (6.283185307179586477 * k * rest));
}

#endif
