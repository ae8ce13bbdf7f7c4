/* Calls: one axis after the other, by several threads; for one type. */

#define CALL struct NAME(call)
#define TASK struct NAME(task)

/* The first step reads the operand, the last one writes the result, and those between work in the result, or where the
   result has rows of another length in memory aside. Steps are those of one plane; `planes` lie one after the other,
   and as many as stay in a cache are taken through all steps together. */
CALL {
    idx count, planes, group;
    idx take, give, aside; /* real numbers of a plane: of the operand (or one of its parts), of the result, and aside */
    const STEP *steps;
};

/* All steps of groups of planes, or one step of all of them; `in` and `out` have so many numbers of a plane */
TASK {
    const CALL *call;
    const STEP *step;
    const T *in, *im;
    T *out;
    idx take, give;
};

static inline idx NAME(groups)(const CALL *call) { return (call->planes + call->group - 1) / call->group; }

static void NAME(through)(const CALL *call, idx planes, const T *in, const T *im, T *out, T *aside, C *space) {
    for (idx k = 0; k < call->count; k++) {
        const STEP *step = call->steps + k;
        T *to = aside && k + 1 < call->count ? aside : out;
        const idx outer = planes * step->outer;
        NAME(step)(step, outer, 0, NAME(units)(step, outer), in, im, to, space);
        in = to;
        im = NULL;
    }
}

/* Groups from first to last, or units of a step: as many of each group as a whole one has. Rows that share vectors are
   the same ones either way, and so are their bits */
static int NAME(work)(const void *argument, idx first, idx last) {
    const TASK *task = argument;
    const CALL *call = task->call;
    const STEP *step = task->step;
    idx room = 0;
    for (idx k = 0; k < call->count; k++) {
        idx needed = NAME(step_room)(call->steps + k);
        room = needed > room ? needed : room;
    }
    const idx beside = step ? 0 : call->group * call->aside, each = step ? NAME(units)(step, call->group * step->outer) : 1;
    C *space = borrow((size_t)(room + NAME(pairs)(beside)) * sizeof(C));
    if (!space) return 1;
    for (idx unit = first, next; unit < last; unit = next) {
        const idx at = unit / each * call->group, planes = NAME(least)(call->group, call->planes - at);
        const T *in = task->in + at * task->take, *im = task->im ? task->im + at * task->take : NULL;
        T *out = task->out + at * task->give;
        next = NAME(least)(last, (unit / each + 1) * each);
        if (step) {
            const idx outer = planes * step->outer, from = unit % each, stop = NAME(units)(step, outer);
            NAME(step)(step, outer, from, NAME(least)(from + next - unit, stop), in, im, out, space);
        } else NAME(through)(call, planes, in, im, out, call->aside ? (T *)(space + room) : NULL, space);
    }
    give_back(space);
    return 0;
}

/* in, or its planes in and im, to out; not 0 where memory did not suffice */
int NAME(run)(const CALL *call, const T *in, const T *im, T *out, idx threads) {
    const idx groups = NAME(groups)(call);
    TASK task = {call, NULL, in, im, out, call->take, call->give};
    in_large_pages(out, (size_t)(call->planes * call->give) * sizeof(T));
    if (threads == 1 || groups % threads == 0 || groups >= 4 * threads)
        return shared(NAME(work), &task, groups, threads);
    T *aside = call->aside ? borrow((size_t)(call->planes * call->aside) * sizeof(T)) : NULL;
    int failed = call->aside && !aside;
    for (idx k = 0; k < call->count && !failed; k++) {
        const int between = aside && k + 1 < call->count;
        task.step = call->steps + k;
        task.out = between ? aside : out;
        task.give = between ? call->aside : call->give;
        failed = shared(NAME(work), &task, groups * NAME(units)(task.step, call->group * task.step->outer), threads);
        task.in = task.out;
        task.take = task.give;
        task.im = NULL;
    }
    if (aside) give_back(aside);
    return failed;
}

idx NAME(lanes)(void) { return LANES; }

#undef CALL
#undef TASK
