/* Frames of signals and their spectra, either way; for one type. */

#define FRAMES struct NAME(frames)
#define TASK struct NAME(signals)
/* samples of a result that are a unit of work */
#define SPAN 16384

/* `count` frames of n samples at distance `hop` of each signal of `length` samples, padded by `by` at either end; the
   other way samples from `start` on come of spectra at distances `apart` (of signals), `between` (of frames) and `next`
   (of frequencies) */
FRAMES {
    const J *job;
    idx signals, length, count, hop, by, mode, columns;
    idx start, apart, between, next;
    double scale;
};

TASK {
    const FRAMES *f;
    const T *x, *window;
    T *y;
    const T *repeated; /* [hop] sums of squares of windows where all frames are there that can be */
};

/* How many frames are transformed together */
static inline idx NAME(together)(const FRAMES *f) {
    return f->columns ? NAME(block)(f->job) : f->job->flags & PAIRED ? 2 : 1;
}

static inline idx NAME(frames_room)(const FRAMES *f) {
    const idx rows = NAME(together)(f);
    return (f->columns ? 3 * NAME(buffer)(f->job) : NAME(job_room)(f->job)) + NAME(pairs)(rows * f->job->take)
        + NAME(pairs)(rows * f->job->give);
}

static inline void NAME(transformed)(const FRAMES *f, idx count, const T *x, T *y, C *space) {
    if (f->columns) NAME(columns)(f->job, 1, count, x, NULL, y, f->scale, space);
    else NAME(rows)(f->job, count, x, NULL, y, f->scale, space);
}

/* A sample of the padded signal; 0 is the first of the signal itself */
static inline T NAME(sample)(const T *x, idx length, idx at, idx mode) {
    if (at >= 0 && at < length) return x[at];
    switch (mode) {
        case REFLECT: return x[at < 0 ? -at : 2 * (length - 1) - at];
        case REPLICATE: return x[at < 0 ? 0 : length - 1];
        case CIRCULAR: return x[at < 0 ? at + length : at - length];
    }
    return 0;
}

static void NAME(frame)(const FRAMES *f, const T *x, const T *window, idx at, T *restrict y) {
    const idx n = f->job->n;
    if (at >= 0 && at + n <= f->length) {
        if (window)
            for (idx j = 0; j < n; j++) y[j] = x[at + j] * window[j];
        else memcpy(y, x + at, (size_t)n * sizeof(T));
    } else
        for (idx j = 0; j < n; j++) y[j] = NAME(sample)(x, f->length, at + j, f->mode) * (window ? window[j] : 1);
}

static int NAME(work_stft)(const void *argument, idx first, idx last) {
    const TASK *task = argument;
    const FRAMES *f = task->f;
    const idx rows = NAME(together)(f), all = f->signals * f->count, n = f->job->n;
    const idx room = NAME(frames_room)(f);
    C *space = borrow((size_t)room * sizeof(C));
    if (!space) return 1;
    T *line = (T *)(space + room - NAME(pairs)(rows * f->job->take));
    for (idx unit = first; unit < last; unit++) {
        const idx at = unit * rows, count = NAME(least)(rows, all - at);
        for (idx row = 0; row < count; row++) {
            const idx signal = (at + row) / f->count, t = (at + row) % f->count;
            NAME(frame)(f, task->x + signal * f->length, task->window, t * f->hop - f->by, line + row * n);
        }
        NAME(transformed)(f, count, line, task->y + at * f->job->give, space);
    }
    give_back(space);
    return 0;
}

/* Spectra [signals][count][give] of signals x [signals][length] */
int NAME(stft)(const FRAMES *f, const T *x, const T *window, T *y, idx threads) {
    const TASK task = {f, x, window, y, NULL};
    const idx rows = NAME(together)(f), all = f->signals * f->count;
    in_large_pages(y, (size_t)(all * f->job->give) * sizeof(T));
    return shared(NAME(work_stft), &task, (all + rows - 1) / rows, threads);
}

/* The sum of squares of windows over sample s of the padded signal */
static T NAME(weight)(const FRAMES *f, const T *window, idx s) {
    const idx n = f->job->n;
    T sum = 0;
    for (idx t = s < n ? 0 : (s - n) / f->hop + 1; t < f->count && t * f->hop <= s; t++)
        sum += window ? window[s - t * f->hop] * window[s - t * f->hop] : 1;
    return sum;
}

/* Samples s from `first` to `last` of one signal: frames that meet there, added up and divided */
static void NAME(span)(const TASK *task, const T *x, idx first, idx last, T *y, C *space, T *spectra, T *line) {
    const FRAMES *f = task->f;
    const idx n = f->job->n, rows = NAME(together)(f), half = f->job->take / 2;
    const idx end = NAME(least)(f->count, (last - 1) / f->hop + 1);
    memset(y, 0, (size_t)(last - first) * sizeof(T));
    /* frames that share vectors are the same ones wherever a span begins, and so are their bits */
    const idx begin = (first < n ? 0 : (first - n) / f->hop + 1) / rows * rows;
    for (idx t = begin; t < end; t += rows) {
        const idx count = NAME(least)(rows, f->count - t);
        for (idx row = 0; row < count; row++) {
            const T *from = x + 2 * (t + row) * f->between;
            T *to = spectra + 2 * row * half;
            if (f->next == 1) memcpy(to, from, 2 * (size_t)half * sizeof(T));
            else
                for (idx k = 0; k < half; k++) {
                    to[2 * k] = from[2 * k * f->next];
                    to[2 * k + 1] = from[2 * k * f->next + 1];
                }
        }
        NAME(transformed)(f, count, spectra, line, space);
        for (idx row = 0; row < count; row++) {
            const idx at = (t + row) * f->hop - first, low = at < 0 ? -at : 0, high = NAME(least)(n, last - first - at);
            const T *from = line + row * n, *window = task->window;
            T *restrict to = y + at;
            if (window)
                for (idx j = low; j < high; j++) to[j] += from[j] * window[j];
            else
                for (idx j = low; j < high; j++) to[j] += from[j];
        }
    }
    /* between the ends, sums of squares repeat from one frame to the next */
    const idx full = n - f->hop > first ? n - f->hop : first, over = NAME(least)(last, f->count * f->hop);
    for (idx s = first; s < NAME(least)(full, last); s++) y[s - first] /= NAME(weight)(f, task->window, s);
    for (idx s = full, r = full % f->hop; s < over; r = 0) {
        const idx stop = NAME(least)(over, s + f->hop - r);
        for (; s < stop; s++, r++) y[s - first] /= task->repeated[r];
    }
    for (idx s = over > full ? over : full; s < last; s++) y[s - first] /= NAME(weight)(f, task->window, s);
}

static int NAME(work_istft)(const void *argument, idx first, idx last) {
    const TASK *task = argument;
    const FRAMES *f = task->f;
    const idx rows = NAME(together)(f), spans = (f->length + SPAN - 1) / SPAN, room = NAME(frames_room)(f);
    C *space = borrow((size_t)room * sizeof(C));
    if (!space) return 1;
    T *line = (T *)(space + room - NAME(pairs)(rows * f->job->give));
    T *spectra = line - 2 * LANES * NAME(pairs)(rows * f->job->take);
    /* neighbouring spans of a signal are one, or frames that reach over would be transformed twice */
    for (idx unit = first; unit < last;) {
        const idx signal = unit / spans, from = unit % spans * SPAN, rest = spans - unit % spans;
        const idx taken = NAME(least)(rest, last - unit), to = NAME(least)(f->length, from + taken * SPAN);
        NAME(span)(task, task->x + 2 * signal * f->apart, f->start + from, f->start + to,
                   task->y + signal * f->length + from, space, spectra, line);
        unit += taken;
    }
    give_back(space);
    return 0;
}

/* Signals y [signals][length] of half spectra; 2 where squares of windows add up to less than `least` somewhere */
int NAME(istft)(const FRAMES *f, const T *x, const T *window, T *y, double least, idx threads) {
    const idx n = f->job->n, stop = f->start + f->length;
    T *repeated = borrow((size_t)f->hop * sizeof(T));
    if (!repeated) return 1;
    int found = 0;
    for (idx r = 0; r < f->hop; r++) {
        repeated[r] = 0;
        for (idx j = r; j < n; j += f->hop) repeated[r] += window ? window[j] * window[j] : 1;
    }
    const idx full = n - f->hop > f->start ? n - f->hop : f->start, over = NAME(least)(stop, f->count * f->hop);
    for (idx s = f->start; s < stop && !found; s++) {
        /* one of all that repeat is enough */
        if (s == full + f->hop && s < over) s = over;
        const T sum = s >= full && s < over ? repeated[s % f->hop] : NAME(weight)(f, window, s);
        if (s < stop && !(sum >= (T)least)) found = 2;
    }
    const TASK task = {f, x, window, y, repeated};
    if (!found) found = shared(NAME(work_istft), &task, f->signals * ((f->length + SPAN - 1) / SPAN), threads);
    give_back(repeated);
    return found;
}

#undef FRAMES
#undef TASK
#undef SPAN

#undef STEP
#undef COLUMNS
