/* What a step of decoding does between its matrix products, each in one pass: attention of few queries, the norm of a
 * sum, and the likeliest ways to go on. Floats in, floats out; the caller (regard/native/__init__.py) says where they lie.
 *
 *   row         out = weight x + bias, of a single x: each thread reads its part of the weight once, from end to end
 *   attend      out[b, w, h] = sum_t softmax_t(q[b, w, h] . k[b, h, s]) v[b, h, s],   s = path[b, w, t], or t itself
 *   add_norm    sum = x + y,   out = (sum - mean) / sqrt(var + eps) * weight + bias
 *   likeliest   of all beams and words, the k greatest of   log softmax(logits[b, w])[word] + score[b, w]
 *
 * There is no mask: what may be seen is a stretch of keys, or a path of places through those that beams have said. Work
 * is shared among OpenMP's threads, which are torch's own where torch was loaded first.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <float.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__linux__) && !defined(__clang__) && defined(__GNUC__) && __GNUC__ >= 12
#define EACH_PROCESSOR __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define EACH_PROCESSOR
#endif

#define BLOCK 64
#define SMALL 16384 /* multiplications that are not worth a second thread */

/* exp of what is not above 0, to about 1e-7 of itself; what is below -87 is taken as that. Cephes' polynomial. */
static inline float exp_(float x) {
    const float magic = 12582912.0f; /* 1.5 * 2^23: adding it rounds to a whole number */
    x = x < -87.0f ? -87.0f : x; /* what is no number stays none */
    float n = (x * 1.44269504f + magic) - magic;
    float r = x - n * 0.693359375f + n * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    union { int32_t i; float f; } scale = {((int32_t)n + 127) << 23};
    return p * scale.f;
}

/* Sixteen floats, wherever they lie; a processor with narrower registers takes several. */
typedef float v4 __attribute__((vector_size(16)));
typedef float v8 __attribute__((vector_size(32)));
typedef float v16 __attribute__((vector_size(64), aligned(4), may_alias));
#define AT(p, i) (*(const v16 *)((p) + (i)))

/* The sum of each of four vectors. */
static inline __attribute__((always_inline)) v4 sums(v16 a, v16 b, v16 c, v16 d) {
#if defined(__clang__) || __GNUC__ >= 12
#define HALF8(x) \
    (__builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7) + \
     __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15))
#define HALF4(x) (__builtin_shufflevector(x, x, 0, 1, 2, 3) + __builtin_shufflevector(x, x, 4, 5, 6, 7))
    v8 a8 = HALF8(a), b8 = HALF8(b), c8 = HALF8(c), d8 = HALF8(d);
    v4 a4 = HALF4(a8), b4 = HALF4(b8), c4 = HALF4(c8), d4 = HALF4(d8);
    v4 ab = __builtin_shufflevector(a4, b4, 0, 4, 2, 6) + __builtin_shufflevector(a4, b4, 1, 5, 3, 7);
    v4 cd = __builtin_shufflevector(c4, d4, 0, 4, 2, 6) + __builtin_shufflevector(c4, d4, 1, 5, 3, 7);
    return __builtin_shufflevector(ab, cd, 0, 1, 4, 5) + __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
#else
    v4 whole = {0};
    for (int i = 0; i < 16; i++) whole += (v4){a[i], b[i], c[i], d[i]};
    return whole;
#endif
}

/* One query: its scores, and then its weights, are kept in `weights`, of as many places. `far` is from one key to the
 * next, and `wide` how many numbers a key has. Keys and values lie alike. Four keys at a time, and what is read of the
 * values stays in registers. */
EACH_PROCESSOR
static void regard_one(const float *q, const float *keys, const float *values, const int32_t *path, long first, long last,
                       long far, long wide, float *restrict weights, float *restrict out) {
#define PLACE(t) ((path ? path[t] : (t)) * far)
    float most = -FLT_MAX, sum = 0.0f;
    long t = first, whole = wide / 16 * 16;
    for (; t < last; t += 4) { /* where fewer are left, the last is taken again and not kept */
        long left = last - t < 4 ? last - t : 4, l1 = t + (left > 1), l2 = left > 2 ? t + 2 : l1, l3 = left > 3 ? t + 3 : l2;
        const float *k0 = keys + PLACE(t), *k1 = keys + PLACE(l1), *k2 = keys + PLACE(l2), *k3 = keys + PLACE(l3);
        v16 a = {0}, b = {0}, c = {0}, d = {0};
        long i = 0;
        for (; i < whole; i += 16) {
            v16 x = AT(q, i);
            a += x * AT(k0, i);
            b += x * AT(k1, i);
            c += x * AT(k2, i);
            d += x * AT(k3, i);
        }
        v4 s = sums(a, b, c, d);
        for (; i < wide; i++) s += q[i] * (v4){k0[i], k1[i], k2[i], k3[i]};
        memcpy(weights + t, &s, left * sizeof(float));
    }
#pragma omp simd reduction(max : most)
    for (t = first; t < last; t++) most = weights[t] > most ? weights[t] : most;
#pragma omp simd reduction(+ : sum)
    for (t = first; t < last; t++) {
        weights[t] = exp_(weights[t] - most);
        sum += weights[t];
    }
    float by = last > first ? 1.0f / sum : 0.0f;
    long i = 0;
    for (; i + 64 <= wide; i += 64) {
        v16 a = {0}, b = {0}, c = {0}, d = {0};
        for (t = first; t < last; t++) {
            const float *value = values + PLACE(t) + i;
            a += weights[t] * AT(value, 0);
            b += weights[t] * AT(value, 16);
            c += weights[t] * AT(value, 32);
            d += weights[t] * AT(value, 48);
        }
        *(v16 *)(out + i) = a * by;
        *(v16 *)(out + i + 16) = b * by;
        *(v16 *)(out + i + 32) = c * by;
        *(v16 *)(out + i + 48) = d * by;
    }
    for (; i + 32 <= wide; i += 32) {
        v16 a = {0}, b = {0};
        for (t = first; t < last; t++) {
            const float *value = values + PLACE(t) + i;
            a += weights[t] * AT(value, 0);
            b += weights[t] * AT(value, 16);
        }
        *(v16 *)(out + i) = a * by;
        *(v16 *)(out + i + 16) = b * by;
    }
    for (; i + 16 <= wide; i += 16) {
        v16 a = {0};
        for (t = first; t < last; t++) a += weights[t] * AT(values + PLACE(t), i);
        *(v16 *)(out + i) = a * by;
    }
    if (i < wide) {
        for (long j = i; j < wide; j++) out[j] = 0.0f;
        for (t = first; t < last; t++) {
            const float *value = values + PLACE(t);
            for (long j = i; j < wide; j++) out[j] += weights[t] * value[j];
        }
        for (long j = i; j < wide; j++) out[j] *= by;
    }
#undef PLACE
}

/* Some rows of a weight (.., wide) times x. */
EACH_PROCESSOR
static void rows_of(const float *x, const float *weight, const float *bias, long first, long last, long wide, long relu,
                    float *restrict out) {
    long row = first;
    for (; row + 4 <= last; row += 4) {
        const float *w0 = weight + row * wide, *w1 = w0 + wide, *w2 = w1 + wide, *w3 = w2 + wide;
        float s0 = 0.0f, s1 = 0.0f, s2 = 0.0f, s3 = 0.0f;
#pragma omp simd reduction(+ : s0, s1, s2, s3)
        for (long i = 0; i < wide; i++) {
            s0 += x[i] * w0[i];
            s1 += x[i] * w1[i];
            s2 += x[i] * w2[i];
            s3 += x[i] * w3[i];
        }
        out[row] = s0;
        out[row + 1] = s1;
        out[row + 2] = s2;
        out[row + 3] = s3;
    }
    for (; row < last; row++) {
        float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
        for (long i = 0; i < wide; i++) sum += x[i] * weight[row * wide + i];
        out[row] = sum;
    }
    if (bias)
        for (row = first; row < last; row++) out[row] += bias[row];
    if (relu)
        for (row = first; row < last; row++) out[row] = out[row] < 0.0f ? 0.0f : out[row];
}

EACH_PROCESSOR
static void norm_one(const float *x, const float *y, const float *weight, const float *bias, long wide, float eps,
                     float *restrict whole, float *restrict out) {
    float mean = 0.0f, spread = 0.0f;
    if (y) {
#pragma omp simd
        for (long i = 0; i < wide; i++) whole[i] = x[i] + y[i];
        x = whole;
    }
#pragma omp simd reduction(+ : mean)
    for (long i = 0; i < wide; i++) mean += x[i];
    mean /= wide;
#pragma omp simd reduction(+ : spread)
    for (long i = 0; i < wide; i++) spread += (x[i] - mean) * (x[i] - mean);
    float by = 1.0f / sqrtf(spread / wide + eps);
#pragma omp simd
    for (long i = 0; i < wide; i++) out[i] = (x[i] - mean) * by * weight[i] + bias[i];
}

/* The greatest of each block of a row, and of all; then log sum exp(x - greatest). */
EACH_PROCESSOR
static float tops_of(const float *x, long n, float *restrict tops) {
    float most = -INFINITY;
    for (long start = 0, at = 0; start < n; start += BLOCK, at++) {
        long stop = start + BLOCK < n ? start + BLOCK : n;
        float top = -INFINITY;
#pragma omp simd reduction(max : top)
        for (long i = start; i < stop; i++) top = x[i] > top ? x[i] : top;
        tops[at] = top;
        most = top > most ? top : most;
    }
    return most;
}

EACH_PROCESSOR
static float log_sum(const float *x, long n, float most) {
    double whole = 0.0;
    for (long start = 0; start < n; start += 1024) {
        long stop = start + 1024 < n ? start + 1024 : n;
        float sum = 0.0f;
#pragma omp simd reduction(+ : sum)
        for (long i = start; i < stop; i++) sum += exp_(x[i] - most);
        whole += sum;
    }
    return (float)log(whole);
}

/* Put a candidate where it belongs among the k best so far, the greatest first; equals stay in the order they came. */
static void insert(float value, int64_t beam, int64_t word, long k, float *values, int64_t *beams, int64_t *words) {
    long at = k - 1;
    for (; at > 0 && values[at - 1] < value; at--) {
        values[at] = values[at - 1];
        beams[at] = beams[at - 1];
        words[at] = words[at - 1];
    }
    values[at] = value;
    beams[at] = beam;
    words[at] = word;
}

static void likeliest_of(const float *logits, const float *scores, long beams, long vocab, long k, float *tops,
                         float *values, int64_t *parents, int64_t *words) {
    for (long j = 0; j < k; j++) values[j] = -INFINITY, parents[j] = words[j] = 0;
    for (long beam = 0; beam < beams; beam++, logits += vocab) {
        float most = tops_of(logits, vocab, tops);
        if (!(most > -INFINITY) || !(scores[beam] > -INFINITY)) continue;
        float sum = log_sum(logits, vocab, most), score = scores[beam];
        for (long start = 0, at = 0; start < vocab; start += BLOCK, at++) {
            if (!(((tops[at] - most) - sum) + score > values[k - 1])) continue;
            long stop = start + BLOCK < vocab ? start + BLOCK : vocab;
            for (long i = start; i < stop; i++) {
                float value = ((logits[i] - most) - sum) + score;
                if (value > values[k - 1]) insert(value, beam, i, k, values, parents, words);
            }
        }
    }
}

/* From Python: whole numbers, of which some are addresses. */
#define MOST 24 /* arguments */
static int numbers(const char *name, PyObject *const *given, Py_ssize_t count, Py_ssize_t wanted, long long *to) {
    if (count != wanted) {
        PyErr_Format(PyExc_TypeError, "%s takes %zd numbers, and was given %zd", name, wanted, count);
        return 0;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        to[i] = PyLong_AsLongLong(given[i]);
        if (to[i] == -1 && PyErr_Occurred()) return 0;
    }
    return 1;
}

/* x, weight, bias (or 0), out; rows, wide; relu; threads */
static PyObject *row(PyObject *self, PyObject *const *given, Py_ssize_t count) {
    long long a[MOST];
    if (!numbers("row", given, count, 8, a)) return NULL;
    const float *x = (const float *)a[0], *weight = (const float *)a[1], *bias = (const float *)a[2];
    float *out = (float *)a[3];
    long rows = a[4], wide = a[5], relu = a[6], threads = a[7];
    Py_BEGIN_ALLOW_THREADS
#pragma omp parallel for num_threads((int)threads) schedule(static) if (threads > 1 && rows * wide > SMALL)
    for (long part = 0; part < threads; part++)
        rows_of(x, weight, bias, rows * part / threads, rows * (part + 1) / threads, wide, relu, out);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

/* q, its steps (b, w, h); keys, values, their steps (b, h, key); path, its step, first, last (addresses or 0); n keys or
 * places of a path; out; b, w, h, wide; threads; scratch of threads * n; new keys and values (addresses or 0), which have
 * q's steps and are first written to the places `slot` + w. first and last are (b,), path is (b, w, step). */
static PyObject *attend(PyObject *self, PyObject *const *given, Py_ssize_t count) {
    long long a[MOST];
    if (!numbers("attend", given, count, 24, a)) return NULL;
    const float *q = (const float *)a[0], *new_keys = (const float *)a[21], *new_values = (const float *)a[22];
    float *keys = (float *)a[4], *values = (float *)a[5];
    const int32_t *path = (const int32_t *)a[9], *first = (const int32_t *)a[11], *last = (const int32_t *)a[12];
    long qb = a[1], qw = a[2], qh = a[3], kb = a[6], kh = a[7], far = a[8], step = a[10], n = a[13];
    float *out = (float *)a[14], *scratch = (float *)a[20];
    long b = a[15], w = a[16], h = a[17], wide = a[18];
    long threads = a[19], slot = a[23], rows = b * w * h;
    Py_BEGIN_ALLOW_THREADS
#pragma omp parallel for num_threads((int)threads) schedule(static) if (threads > 1 && rows * n * wide > SMALL)
    for (long part = 0; part < threads; part++) {
        for (long row = rows * part / threads; row < rows * (part + 1) / threads; row++) {
            /* beams inside heads: what one head regards is still near when the next beam comes */
            long beam = row % w, head = row / w % h, item = row / (h * w), at = item * kb + head * kh;
            long from = item * qb + beam * qw + head * qh, to = at + (slot + beam) * far;
            if (new_keys) { /* seen by this beam alone, so that no other thread waits for it */
                memcpy(keys + to, new_keys + from, wide * sizeof(float));
                memcpy(values + to, new_values + from, wide * sizeof(float));
            }
            regard_one(q + from, keys + at, values + at,
                       path ? path + (item * w + beam) * step : NULL, first ? first[item] : 0, last ? last[item] : n, far,
                       wide, scratch + part * n, out + ((item * w + beam) * h + head) * wide);
        }
    }
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

/* x, y (or 0), weight, bias, sum (where y is), out; rows, wide; eps' bits; threads */
static PyObject *add_norm(PyObject *self, PyObject *const *given, Py_ssize_t count) {
    long long a[MOST];
    if (count != 10) {
        PyErr_Format(PyExc_TypeError, "add_norm takes 10 numbers, and was given %zd", count);
        return NULL;
    }
    double eps = PyFloat_AsDouble(given[8]);
    if (eps == -1.0 && PyErr_Occurred()) return NULL;
    if (!numbers("add_norm", given, 8, 8, a)) return NULL;
    long long threads = PyLong_AsLongLong(given[9]);
    if (threads == -1 && PyErr_Occurred()) return NULL;
    const float *x = (const float *)a[0], *y = (const float *)a[1];
    const float *weight = (const float *)a[2], *bias = (const float *)a[3];
    float *whole = (float *)a[4], *out = (float *)a[5];
    long rows = a[6], wide = a[7];
    Py_BEGIN_ALLOW_THREADS
#pragma omp parallel for num_threads((int)threads) schedule(static) if (threads > 1 && rows * wide > SMALL)
    for (long row = 0; row < rows; row++) {
        long at = row * wide;
        norm_one(x + at, y ? y + at : NULL, weight, bias, wide, (float)eps, whole ? whole + at : NULL, out + at);
    }
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

/* logits (b, w, vocab), scores (b, w); b, w, vocab, k; values, parents, words (b, k); threads; scratch of b * blocks */
static PyObject *likeliest(PyObject *self, PyObject *const *given, Py_ssize_t count) {
    long long a[MOST];
    if (!numbers("likeliest", given, count, 11, a)) return NULL;
    const float *logits = (const float *)a[0], *scores = (const float *)a[1];
    long b = a[2], w = a[3], vocab = a[4], k = a[5];
    float *values = (float *)a[6], *scratch = (float *)a[10];
    int64_t *parents = (int64_t *)a[7], *words = (int64_t *)a[8];
    int threads = (int)a[9];
    long blocks = (vocab + BLOCK - 1) / BLOCK;
    Py_BEGIN_ALLOW_THREADS
#pragma omp parallel for num_threads(threads) schedule(static) if (threads > 1 && b * w * vocab > SMALL)
    for (long item = 0; item < b; item++)
        likeliest_of(logits + item * w * vocab, scores + item * w, w, vocab, k, scratch + item * blocks,
                     values + item * k, parents + item * k, words + item * k);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyMethodDef METHODS[] = {
    {"row", (PyCFunction)(void (*)(void))row, METH_FASTCALL, NULL},
    {"attend", (PyCFunction)(void (*)(void))attend, METH_FASTCALL, NULL},
    {"add_norm", (PyCFunction)(void (*)(void))add_norm, METH_FASTCALL, NULL},
    {"likeliest", (PyCFunction)(void (*)(void))likeliest, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef MODULE = {.m_base = PyModuleDef_HEAD_INIT, .m_name = "kernels", .m_size = -1, .m_methods = METHODS};

PyMODINIT_FUNC PyInit_kernels(void) { return PyModule_Create(&MODULE); }
