/* A job on all rows along one axis of a contiguous tensor [outer][n][inner]; for one type.

   Units of work are blocks of transforms that share vectors, rows, pairs of rows, or, where the axis is not the last
   one, blocks of columns that become rows. */

#define STEP struct NAME(step)
#define COLUMNS 16

/* `columns` says whether transforms share vectors */
STEP {
    const J *job;
    idx outer, inner, columns;
    double scale;
};

static inline idx NAME(least)(idx a, idx b) { return a < b ? a : b; }

/* [n][inner] elements of `unit` numbers, or of two planes, to [count][n], and back */
static void NAME(gather)(const T *x, const T *im, idx n, idx inner, idx unit, idx count, T *y) {
    if (unit == 1 && !im)
        for (idx j = 0; j < n; j++)
            for (idx c = 0; c < count; c++) y[c * n + j] = x[j * inner + c];
    else
        for (idx j = 0; j < n; j++)
            for (idx c = 0; c < count; c++) {
                y[2 * (c * n + j)] = x[unit * (j * inner + c)];
                y[2 * (c * n + j) + 1] = im ? im[j * inner + c] : x[2 * (j * inner + c) + 1];
            }
}

static void NAME(scatter)(const T *x, idx n, idx inner, idx unit, idx count, T *y) {
    if (unit == 1)
        for (idx j = 0; j < n; j++)
            for (idx c = 0; c < count; c++) y[j * inner + c] = x[c * n + j];
    else
        for (idx j = 0; j < n; j++)
            for (idx c = 0; c < count; c++) {
                y[2 * (j * inner + c)] = x[2 * (c * n + j)];
                y[2 * (j * inner + c) + 1] = x[2 * (c * n + j) + 1];
            }
}

/* How many rows, or columns, a unit has */
static inline idx NAME(unit)(const STEP *s) {
    return s->columns ? NAME(block)(s->job) : s->inner > 1 ? COLUMNS : s->job->flags & PAIRED ? 2 : 1;
}

static inline idx NAME(units)(const STEP *s, idx outer) {
    const idx unit = NAME(unit)(s);
    return s->inner == 1 ? (outer + unit - 1) / unit : outer * ((s->inner + unit - 1) / unit);
}

/* Numbers of a row of operand and result after gathering, where the operand may be planes */
static inline idx NAME(taken)(const STEP *s) { return s->job->take * (s->job->flags & PLANES ? 2 : 1); }

/* Vector pairs a thread needs beside operand and result */
static idx NAME(step_room)(const STEP *s) {
    if (s->columns) return 3 * NAME(buffer)(s->job);
    const idx columns = s->inner == 1 ? 0 : COLUMNS;
    return NAME(job_room)(s->job) + NAME(pairs)(columns * NAME(taken)(s)) + NAME(pairs)(columns * s->job->give);
}

static void NAME(gathered)(const STEP *s, idx count, const T *x, const T *im, T *y, C *space) {
    const J *job = s->job;
    const idx step = job->flags & PAIRED ? 2 : 1, taken = NAME(taken)(s);
    T *in = (T *)(space + NAME(job_room)(job)), *out = in + 2 * LANES * NAME(pairs)(COLUMNS * taken);
    NAME(gather)(x, im, job->take / job->take_unit, s->inner, job->take_unit, count, in);
    for (idx row = 0; row < count; row += step)
        NAME(rows)(job, NAME(least)(step, count - row), in + row * taken, NULL, out + row * job->give, s->scale, space);
    NAME(scatter)(out, job->give / job->give_unit, s->inner, job->give_unit, count, y);
}

/* Units from first to last */
static void NAME(step)(const STEP *s, idx outer, idx first, idx last, const T *in, const T *im, T *out, C *space) {
    const J *job = s->job;
    const idx inner = s->inner, width = NAME(unit)(s), blocks = (inner + width - 1) / width;
    for (idx unit = first; unit < last; unit++) {
        idx plane = inner > 1 ? unit / blocks : 0, at = (inner > 1 ? unit % blocks : unit) * width;
        idx count = NAME(least)(width, (inner > 1 ? inner : outer) - at);
        idx from = inner > 1 ? plane * job->take * inner + at * job->take_unit : at * job->take;
        T *y = out + (inner > 1 ? plane * job->give * inner + at * job->give_unit : at * job->give);
        const T *x = in + from, *part = im ? im + from : NULL;
        if (s->columns && job->kind >= TYPE1) NAME(trigonometric)(job, inner, count, x, y, s->scale, space);
        else if (s->columns) NAME(columns)(job, inner, count, x, part, y, s->scale, space);
        else if (inner > 1) NAME(gathered)(s, count, x, part, y, space);
        else NAME(rows)(job, count, x, part, y, s->scale, space);
    }
}
