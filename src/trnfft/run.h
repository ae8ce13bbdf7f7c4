/* A job on all rows along one axis of a contiguous tensor, by several threads; for one type. */

#define S struct NAME(share)
#define COLUMNS 16

/* Units of work, from first to last, are blocks of transforms that share vectors, rows, pairs of rows, or, where the
   axis is not the last one, blocks of columns that become rows */
S {
    const J *job;
    idx outer, inner, first, last;
    const T *in;
    T *out;
    double scale;
    int failed;
};

/* [n][inner] elements of `unit` numbers to [count][n], and back */
static void NAME(gather)(const T *x, idx n, idx inner, idx unit, idx count, T *y) {
    if (unit == 1)
        for (idx j = 0; j < n; j++)
            for (idx c = 0; c < count; c++) y[c * n + j] = x[j * inner + c];
    else
        for (idx j = 0; j < n; j++)
            for (idx c = 0; c < count; c++) {
                y[2 * (c * n + j)] = x[2 * (j * inner + c)];
                y[2 * (c * n + j) + 1] = x[2 * (j * inner + c) + 1];
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

static inline idx NAME(least)(idx a, idx b) { return a < b ? a : b; }

static inline int NAME(by_columns)(const J *job, idx outer, idx inner) {
    return job->many.n && (inner > 1 ? inner : outer) >= LANES / 2;
}

static void NAME(work_columns)(const S *s, C *space) {
    const J *job = s->job;
    const idx block = NAME(block)(job), blocks = (s->inner + block - 1) / block;
    for (idx unit = s->first; unit < s->last; unit++) {
        idx plane = s->inner > 1 ? unit / blocks : 0, at = (s->inner > 1 ? unit % blocks : unit) * block;
        idx count = NAME(least)(block, (s->inner > 1 ? s->inner : s->outer) - at);
        idx from = s->inner > 1 ? plane * job->take * s->inner + at * job->take_unit : at * job->take;
        idx to = s->inner > 1 ? plane * job->give * s->inner + at * job->give_unit : at * job->give;
        if (job->kind < TYPE1) NAME(columns)(job, s->inner, count, s->in + from, s->out + to, s->scale, space);
        else NAME(trigonometric)(job, s->inner, count, s->in + from, s->out + to, s->scale, space);
    }
}

static void NAME(work_rows)(const S *s, C *space) {
    const J *job = s->job;
    const idx step = job->flags & PAIRED ? 2 : 1;
    for (idx unit = s->first; unit < s->last; unit++) {
        idx row = unit * step, count = NAME(least)(step, s->outer - row);
        NAME(rows)(job, count, s->in + row * job->take, s->out + row * job->give, s->scale, space);
    }
}

static void NAME(work_gathered)(const S *s, T *x, T *y, C *space) {
    const J *job = s->job;
    const idx inner = s->inner, blocks = (inner + COLUMNS - 1) / COLUMNS, step = job->flags & PAIRED ? 2 : 1;
    for (idx unit = s->first; unit < s->last; unit++) {
        idx plane = unit / blocks, at = unit % blocks * COLUMNS, count = NAME(least)(COLUMNS, inner - at);
        const T *from = s->in + plane * job->take * inner + at * job->take_unit;
        T *to = s->out + plane * job->give * inner + at * job->give_unit;
        NAME(gather)(from, job->take / job->take_unit, inner, job->take_unit, count, x);
        for (idx row = 0; row < count; row += step)
            NAME(rows)(job, NAME(least)(step, count - row), x + row * job->take, y + row * job->give, s->scale, space);
        NAME(scatter)(y, job->give / job->give_unit, inner, job->give_unit, count, to);
    }
}

static void *NAME(work)(void *argument) {
    S *s = argument;
    const J *job = s->job;
    const int by_columns = NAME(by_columns)(job, s->outer, s->inner);
    const idx room = by_columns ? 3 * NAME(buffer)(job) : NAME(job_room)(job);
    const idx columns = by_columns || s->inner == 1 ? 0 : COLUMNS;
    const idx taken = NAME(pairs)(columns * job->take), given = NAME(pairs)(columns * job->give);
    struct space whole = borrow((size_t)(room + taken + given) * sizeof(C));
    C *space = whole.at;
    if ((s->failed = !space)) return 0;
    if (by_columns) NAME(work_columns)(s, space);
    else if (s->inner == 1) NAME(work_rows)(s, space);
    else NAME(work_gathered)(s, (T *)(space + room), (T *)(space + room + taken), space);
    give_back(whole);
    return 0;
}

/* in [outer][n][inner] to out; not 0 where memory did not suffice */
int NAME(run)(const J *job, idx outer, idx inner, const T *in, T *out, double scale, idx threads) {
    const idx step = NAME(by_columns)(job, outer, inner) ? NAME(block)(job) : inner > 1 ? COLUMNS : job->flags & PAIRED ? 2 : 1;
    const idx units = inner == 1 ? (outer + step - 1) / step : outer * ((inner + step - 1) / step);
    S shares[THREADS_MOST];
    pthread_t ids[THREADS_MOST];
    int started[THREADS_MOST] = {0}, failed = 0;
    threads = NAME(least)(NAME(least)(threads, units), THREADS_MOST);
    in_large_pages(out, (size_t)(outer * inner * job->give) * sizeof(T));
    for (idx t = 0; t < threads; t++)
        shares[t] = (S){job, outer, inner, t * units / threads, (t + 1) * units / threads, in, out, scale, 0};
    for (idx t = 1; t < threads; t++) started[t] = !pthread_create(ids + t, 0, NAME(work), shares + t);
    for (idx t = 0; t < threads; t++)
        if (!started[t]) NAME(work)(shares + t);
    for (idx t = 0; t < threads; t++) {
        if (started[t]) pthread_join(ids[t], 0);
        failed |= shares[t].failed;
    }
    return failed;
}

idx NAME(lanes)(void) { return LANES; }

#undef S
#undef COLUMNS
