/* trnsci._loops: the host loops that no library gives.

   Arrays come as contiguous buffers. What a caller could get wrong, sizes, indices and numbers of cases, is checked
   here, so that no argument reaches memory that is not its own. Loops run without the interpreter's lock. */

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030B0000
#include <Python.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "words are read from little-endian bytes"
#endif

#include "counts.h"
#include "factors.h"
#include "gamma.h"
#include "integers.h"
#include "inverse.h"
#include "pairs.h"
#include "stream.h"

#define VIEWS 5
#define RESULTS 3           /* views from here on are written */
#define PLACE 32            /* bytes of a key and a counter */
#define SLICE (UINT64_C(1) << 22) /* elements between two moments at which a signal may end a call */

static int aligned(const Py_buffer *view) { return (uintptr_t)view->buf % 8 == 0 || view->len == 0; }

/* What is wrong with the memory of a call: a result that another argument shares would change it on the way. */
static const char *entangled(const Py_buffer view[VIEWS]) {
  for (int i = RESULTS; i < VIEWS; i++)
    for (int j = 0; j < VIEWS; j++) {
      uintptr_t one = (uintptr_t)view[i].buf, other = (uintptr_t)view[j].buf;
      if (i != j && one < other + (uintptr_t)view[j].len && other < one + (uintptr_t)view[i].len)
        return "a result shares memory with another argument";
    }
  return NULL;
}

/* Release the buffers of a call; raise if something was `wrong`, else return the result, or None without one. */
static PyObject *ended(Py_buffer view[VIEWS], const char *wrong, PyObject *result) {
  for (int i = 0; i < VIEWS; i++) PyBuffer_Release(&view[i]);
  if (wrong) PyErr_SetString(PyExc_ValueError, wrong);
  if (wrong || PyErr_Occurred()) return NULL;
  if (result) return result;
  Py_INCREF(Py_None);
  return Py_None;
}

/* What is wrong with a call on a stream: `out` elements of `size` bytes. Otherwise the job knows where they are. */
static const char *unfit(job_t *job, int kind, int kinds, const Py_buffer *place, const Py_buffer *out, size_t size) {
  if (job->engine < 0 || job->engine > 1) return "an engine is 0 or 1";
  if (kind < 0 || kind >= kinds) return "there is no such case";
  if (place->len != PLACE) return "a key and a counter are 32 bytes";
  if (!aligned(out) || out->len % (Py_ssize_t)size) return "the result is not an aligned array of this dtype";
  memcpy(job->key, place->buf, 16);
  memcpy(job->base, (const char *)place->buf + 16, 16);
  job->count = (uint64_t)out->len / size, job->out = out->buf;
  return job->first > UINT64_MAX - job->count ? "a stream ends at element 2^64" : NULL;
}

/* Whether a parameter is one double (0), as many as there are elements (1), or neither (-1). */
static int64_t step_of(const Py_buffer *in, uint64_t count) {
  if (!aligned(in) || (in->len != 8 && (uint64_t)in->len != 8 * count)) return -1;
  return in->len == 8 ? 0 : 1;
}

/* Whether every number lies within limits, and is whole where it must be. A NaN does not. */
static int within(const Py_buffer *in, double least, double most, int whole) {
  const double *x = in->buf;
  int good = 1;
  for (Py_ssize_t i = 0; i < in->len / 8; i++) good &= x[i] >= least && x[i] <= most && (!whole || floor64(x[i]) == x[i]);
  return good;
}

/* Run what nothing is wrong with, and end the call. */
static PyObject *run(Py_buffer view[VIEWS], const char *wrong, job_t *job, uint64_t unit, size_t size, int threads) {
  atomic_int failed = 0;
  job->failed = &failed;
  if (!wrong) wrong = entangled(view);
  for (uint64_t done = 0; !wrong && done < job->count; done += SLICE) {
    job_t slice = part(job, done, job->count - done < SLICE ? job->count - done : SLICE, size);
    Py_BEGIN_ALLOW_THREADS share(&slice, unit, size, threads);
    Py_END_ALLOW_THREADS
    if (failed) wrong = "an element has been refused too often: its parameter changed meanwhile";
    if (PyErr_CheckSignals()) break;
  }
  return ended(view, wrong, NULL);
}

static PyObject *py_fill(PyObject *self, PyObject *args) {
  Py_buffer view[VIEWS] = {{0}}, *place = &view[0], *out = &view[4];
  job_t job = {.work = fill};
  unsigned long long first;
  int threads;
  if (!PyArg_ParseTuple(args, "iiy*Kw*i", &job.kind, &job.engine, place, &first, out, &threads)) return NULL;
  size_t size = wide(job.kind) ? 8 : 4;
  job.first = first;
  return run(view, unfit(&job, job.kind, NORMAL_F64 + 1, place, out, size), &job, 4 * LANES, size, threads);
}

/* The words of given counters, int64 [n, 4] of which the lower halves are read. */
static PyObject *py_counters(PyObject *self, PyObject *args) {
  Py_buffer view[VIEWS] = {{0}}, *place = &view[0], *in = &view[1], *out = &view[4];
  job_t job = {.work = given, .step = 4};
  int threads;
  if (!PyArg_ParseTuple(args, "iy*y*w*i", &job.engine, place, in, out, &threads)) return NULL;
  const char *wrong = unfit(&job, 0, 1, place, out, 16);
  if (!wrong && (!aligned(in) || in->len / 2 != out->len || in->len % 2)) wrong = "there are as many counters as blocks";
  job.in = in->buf;
  return run(view, wrong, &job, LANES, 16, threads);
}

static PyObject *py_inverse(PyObject *self, PyObject *args) {
  Py_buffer view[VIEWS] = {{0}}, *place = &view[0], *out = &view[4];
  job_t job = {.work = inverse_work};
  unsigned long long first;
  int threads;
  if (!PyArg_ParseTuple(args, "iiy*Kddiw*i", &job.kind, &job.engine, place, &first, &job.parameter[0],
                        &job.parameter[1], &job.dims, out, &threads))
    return NULL;
  int known = job.dims >= 0 && job.dims <= TO_BOOL;
  size_t size = known ? width[job.dims] : 1;
  job.first = first;
  const char *wrong = known ? unfit(&job, job.kind, BERNOULLI + 1, place, out, size) : "there is no such result";
  return run(view, wrong, &job, 2 * LANES, size, threads);
}

/* Gamma variates (0) or Poisson counts (1); one parameter, or one for each element. */
static PyObject *py_sample(PyObject *self, PyObject *args) {
  Py_buffer view[VIEWS] = {{0}}, *place = &view[0], *in = &view[1], *out = &view[4];
  job_t job = {0};
  int threads;
  if (!PyArg_ParseTuple(args, "iiy*y*w*i", &job.kind, &job.engine, place, in, out, &threads)) return NULL;
  const char *wrong = unfit(&job, job.kind, 2, place, out, 8);
  job.in = in->buf, job.step = step_of(in, job.count);
  if (!wrong && job.step < 0) wrong = "a parameter is one float64, or one for each element";
  if (!wrong && !(job.kind == 0 ? within(in, 0x1p-1074, 0x1.fffffffffffffp1023, 0) : within(in, 0.0, 0x1p62, 0)))
    wrong = "a shape is positive and finite, a rate from 0 to 2^62";
  job.work = job.kind == 0 ? gamma_work : job.step ? counts_each : counts_alike;
  return run(view, wrong, &job, LANES, 8, threads);
}

static PyObject *py_binomial(PyObject *self, PyObject *args) {
  Py_buffer view[VIEWS] = {{0}}, *place = &view[0], *n = &view[1], *p = &view[2], *out = &view[4];
  job_t job = {0};
  unsigned long long apart;
  int threads;
  if (!PyArg_ParseTuple(args, "iy*Ky*y*w*i", &job.engine, place, &apart, n, p, out, &threads)) return NULL;
  const char *wrong = unfit(&job, 0, 1, place, out, 8);
  job.apart = apart, job.in = n->buf, job.also = p->buf;
  job.step = step_of(n, job.count), job.also_step = step_of(p, job.count);
  if (!wrong && (job.step < 0 || job.also_step < 0)) wrong = "a parameter is one float64, or one for each element";
  if (!wrong && !(within(n, 0.0, 0x1p53, 1) && within(p, 0.0, 1.0, 0)))
    wrong = "trials are a whole number up to 2^53, their chance is from 0 to 1";
  job.work = job.step || job.also_step ? counts_each : counts_alike;
  return run(view, wrong, &job, LANES, 8, threads);
}

/* Integers from `low`; a span of 2^64 is given as 0, `other` is the counter of the elements' substreams. */
static PyObject *py_randint(PyObject *self, PyObject *args) {
  Py_buffer view[VIEWS] = {{0}}, *place = &view[0], *other = &view[1], *out = &view[4];
  job_t job = {0};
  unsigned long long first, span;
  long long low;
  int threads;
  if (!PyArg_ParseTuple(args, "iy*y*KKLw*i", &job.engine, place, other, &first, &span, &low, out, &threads)) return NULL;
  int narrow = span - 1 <= UINT32_MAX;
  job.first = first, job.span = span, job.low = low;
  const char *wrong = unfit(&job, 0, 1, place, out, 8);
  if (!wrong && other->len != 16) wrong = "a counter is 16 bytes";
  if (!wrong) memcpy(narrow ? job.other : job.base, other->buf, 16);
  job.work = narrow ? narrow_work : wide_work;
  if (narrow) job.uneven = (uint32_t)((UINT64_C(1) << 32) % span);
  return run(view, wrong, &job, narrow ? 4 * LANES : LANES, 8, threads);
}

static PyObject *py_map(PyObject *self, PyObject *args) {
  Py_buffer view[VIEWS] = {{0}}, *in = &view[0], *out = &view[4];
  job_t job = {.work = map_work, .step = 1};
  int threads;
  if (!PyArg_ParseTuple(args, "iy*w*i", &job.kind, in, out, &threads)) return NULL;
  const char *wrong = job.kind < 0 || job.kind > COS_TURN ? "there is no such function" : NULL;
  if (!wrong && (!aligned(in) || !aligned(out) || in->len != out->len || in->len % 8))
    wrong = "operand and result are aligned arrays of float64 of one length";
  job.in = in->buf, job.out = out->buf, job.count = (uint64_t)in->len / 8;
  return run(view, wrong, &job, 64, 8, threads);
}

/* What is wrong with the rows of a matrix: every pointer and column lies where it may. */
static const char *unsound(idx n, idx stored, const idx *p, const idx *c) {
  if (p[0] != 0 || p[n] != stored) return "pointers begin at 0 and end at the number of values";
  for (idx i = 0; i < n; i++)
    if (p[i] > p[i + 1] || p[i + 1] > stored) return "pointers never fall";
  for (idx i = 0; i < n; i++)
    for (idx at = p[i]; at < p[i + 1]; at++)
      if (c[at] < 0 || c[at] >= n || (at > p[i] && c[at] <= c[at - 1])) return "columns rise within a row, from 0 below n";
  return NULL;
}

static const size_t number[] = {4, 8, 8, 16}; /* bytes of float32, float64, complex64, complex128 */

/* ILU(0) with `boost` a pair of numbers or None, IC(0) in place: -1, or the row without a pivot. */
static PyObject *factored(PyObject *args, int lu) {
  Py_buffer view[VIEWS] = {{0}}, *ptr = &view[0], *col = &view[1], *boost = &view[2], *values = &view[4];
  int dtype;
  if (!PyArg_ParseTuple(args, lu ? "iy*y*w*z*" : "iy*y*w*", &dtype, ptr, col, values, boost)) return NULL;
  if (dtype < 0 || dtype > 3) return ended(view, "a dtype is 0 to 3", NULL);
  if (!aligned(ptr) || !aligned(col) || !aligned(values) || ptr->len < 8 || ptr->len % 8 || col->len % 8)
    return ended(view, "pointers and columns are aligned arrays of int64", NULL);
  idx n = ptr->len / 8 - 1, stored = col->len / 8, bad = -1;
  if ((size_t)values->len / number[dtype] != (size_t)stored || (size_t)values->len % number[dtype])
    return ended(view, "there is one value for each column", NULL);
  if (boost->buf && (!aligned(boost) || (size_t)boost->len != 2 * number[dtype])) return ended(view, "boost is a pair", NULL);
  /* pointers and columns are copied: what has been checked stays so, whatever other threads do */
  idx *scratch = PyMem_Malloc((size_t)(3 * n + 1 + stored) * sizeof(idx)), *p = scratch + 2 * n, *c = p + n + 1;
  if (!scratch) return PyErr_NoMemory(), ended(view, NULL, NULL);
  memcpy(p, ptr->buf, (size_t)ptr->len), memcpy(c, col->buf, (size_t)col->len);
  for (idx i = 0; i < n; i++) scratch[i] = -1;
  const char *wrong = entangled(view);
  if (!wrong) wrong = unsound(n, stored, p, c);
  void *a = values->buf;
#define EITHER(NAME) \
  lu ? ilu0_##NAME(i, end, p, c, a, scratch, scratch + n, boost->buf) : ic0_##NAME(i, end, p, c, a, scratch)
  for (idx i = 0, end = 0; !wrong && i < n && bad < 0 && !PyErr_CheckSignals(); i = end) {
    while (end < n && (end == i || p[end + 1] - p[i] < 1 << 16)) end++;
    Py_BEGIN_ALLOW_THREADS
    bad = dtype == 0 ? EITHER(float32) : dtype == 1 ? EITHER(float64) : dtype == 2 ? EITHER(complex64) : EITHER(complex128);
    Py_END_ALLOW_THREADS
  }
  PyMem_Free(scratch);
  return ended(view, wrong, wrong || PyErr_Occurred() ? NULL : PyLong_FromLongLong(bad));
}

static PyObject *py_ilu0(PyObject *self, PyObject *args) { return factored(args, 1); }
static PyObject *py_ic0(PyObject *self, PyObject *args) { return factored(args, 0); }

/* Both sums of each pair's integrals; 0 is float32, 1 float64. */
static PyObject *py_pairs(PyObject *self, PyObject *args) {
  Py_buffer view[VIEWS] = {{0}}, *t = &view[0], *occ = &view[1], *vir = &view[2], *square = &view[3], *cross = &view[4];
  int dtype;
  if (!PyArg_ParseTuple(args, "iy*y*y*w*w*", &dtype, t, occ, vir, square, cross)) return NULL;
  if (dtype < 0 || dtype > 1) return ended(view, "a dtype is 0 or 1", NULL);
  Py_ssize_t size = (Py_ssize_t)number[dtype], pairs = occ->len / size, n = vir->len / size, block, all, sums;
  for (int i = 0; i < VIEWS; i++)
    if ((uintptr_t)view[i].buf % (size_t)(i < RESULTS ? size : 8)) return ended(view, "arrays are aligned", NULL);
  if (__builtin_mul_overflow(n, n, &block) || __builtin_mul_overflow(block, size, &block) ||
      __builtin_mul_overflow(block, pairs, &all) || __builtin_mul_overflow(pairs, 8, &sums) || occ->len % size ||
      vir->len % size || t->len != all || square->len != sums || cross->len != sums)
    return ended(view, "integrals are [pairs, n, n], with n virtual energies, and two float64 for each pair", NULL);
  const char *wrong = entangled(view);
  idx step = (1 << 28) / (block + 1) + 1;
  for (idx i = 0; !wrong && i < pairs && !PyErr_CheckSignals(); i += step) {
    idx end = pairs - i < step ? pairs : i + step;
    Py_BEGIN_ALLOW_THREADS
    if (dtype == 0)
      pairs_float32(i, end, n, t->buf, occ->buf, vir->buf, square->buf, cross->buf);
    else
      pairs_float64(i, end, n, t->buf, occ->buf, vir->buf, square->buf, cross->buf);
    Py_END_ALLOW_THREADS
  }
  return ended(view, wrong, NULL);
}

static PyMethodDef methods[] = {
    {"fill", py_fill, METH_VARARGS, NULL},         {"inverse", py_inverse, METH_VARARGS, NULL},
    {"sample", py_sample, METH_VARARGS, NULL},     {"binomial", py_binomial, METH_VARARGS, NULL},
    {"randint", py_randint, METH_VARARGS, NULL},   {"map", py_map, METH_VARARGS, NULL},
    {"ilu0", py_ilu0, METH_VARARGS, NULL},         {"ic0", py_ic0, METH_VARARGS, NULL},
    {"pairs", py_pairs, METH_VARARGS, NULL},       {"counters", py_counters, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_loops", "Host loops in C.", 0, methods};

PyMODINIT_FUNC PyInit__loops(void) { return PyModuleDef_Init(&module); }
