/* Each tile is some rows of x against one panel of the weight. Its sums stay in registers until they are done: as many
 * rows as registers hold, 14 of two vectors of sixteen floats (AVX-512), or 6 of two of eight (AVX2). A row's numbers are
 * broadcast from where they lie, so that x is not copied, and the next panel is fetched while this one is multiplied.
 *
 * Libraries for large products put both sides in order first, which costs more than it brings for the rows of a step.
 */
#include "product.h"

#include <string.h>

#if defined(__x86_64__) && defined(__linux__) && !defined(__clang__) && defined(__GNUC__) && __GNUC__ >= 12

typedef float v8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef float v16 __attribute__((vector_size(64), aligned(4), may_alias));

#define UNROLL _Pragma("GCC unroll 16")

/* `rows` is known where this is inlined. Three rows share a pointer: an address may have one or two steps added. */
#define TILE(name, vec, lanes, most)                                                                                   \
    static inline __attribute__((always_inline)) void name(const int rows, const float *x, long far, const float *w,   \
                                                           long deep, const float *bias, int relu, float *out,         \
                                                           long apart) {                                               \
        vec sums[most][2];                                                                                             \
        const char *at[(most + 2) / 3];                                                                                \
        long step = far * (long)sizeof(float), ahead = deep * PANEL;                                                   \
        UNROLL for (int r = 0; r < rows; r++) sums[r][0] = sums[r][1] = (vec){0};                                      \
        UNROLL for (int r = 0; r < rows; r += 3) at[r / 3] = (const char *)(x + r * far);                              \
        UNROLL for (int r = 0; r < rows; r++) { /* what is to be written is fetched meanwhile, too */                  \
            __builtin_prefetch(out + r * apart, 1);                                                                    \
            __builtin_prefetch(out + r * apart + 2 * lanes - 1, 1);                                                    \
        }                                                                                                              \
        for (long i = 0; i < deep; i++, w += PANEL) {                                                                  \
            vec left = *(const vec *)w, right = *(const vec *)(w + lanes);                                             \
            __builtin_prefetch(w + ahead, 0, 2);                                                                       \
            if (2 * lanes == PANEL) __builtin_prefetch(w + ahead + 16, 0, 2);                                          \
            UNROLL for (int r = 0; r < rows; r++) {                                                                    \
                float s = *(const float *)(at[r / 3] + r % 3 * step);                                                  \
                sums[r][0] += s * left;                                                                                \
                sums[r][1] += s * right;                                                                               \
            }                                                                                                          \
            UNROLL for (int r = 0; r < rows; r += 3) at[r / 3] += sizeof(float);                                       \
        }                                                                                                              \
        UNROLL for (int r = 0; r < rows; r++) {                                                                        \
            float *to = out + r * apart;                                                                               \
            *(vec *)to = sums[r][0];                                                                                   \
            *(vec *)(to + lanes) = sums[r][1];                                                                         \
            if (bias)                                                                                                  \
                for (int j = 0; j < 2 * lanes; j++) to[j] += bias[j];                                                  \
            if (relu)                                                                                                  \
                for (int j = 0; j < 2 * lanes; j++) to[j] = to[j] < 0.0f ? 0.0f : to[j];                               \
        }                                                                                                              \
    }

TILE(tile16, v16, 16, 14)
TILE(tile8, v8, 8, 6)

typedef void Tile(int rows, const float *x, long far, const float *w, long deep, const float *bias, int relu, float *out,
                  long apart);

#define CASE16(n) case n: tile16(n, x, far, w, deep, bias, relu, out, apart); break;
__attribute__((target("arch=x86-64-v4")))
static void rows16(int rows, const float *x, long far, const float *w, long deep, const float *bias, int relu, float *out,
                   long apart) {
    switch (rows) {
        CASE16(1) CASE16(2) CASE16(3) CASE16(4) CASE16(5) CASE16(6) CASE16(7)
        CASE16(8) CASE16(9) CASE16(10) CASE16(11) CASE16(12) CASE16(13) CASE16(14)
    }
}

#define CASE8(n) case n: tile8(n, x, far, w, deep, bias, relu, out, apart); break;
__attribute__((target("arch=x86-64-v3")))
static void rows8(int rows, const float *x, long far, const float *w, long deep, const float *bias, int relu, float *out,
                  long apart) {
    for (int half = 0; half < 2; half++, w += 16, out += 16, bias = bias ? bias + 16 : 0) {
        switch (rows) { CASE8(1) CASE8(2) CASE8(3) CASE8(4) CASE8(5) CASE8(6) }
    }
}

static int allowed = 16;

int product_lanes(int most) {
    if (most) allowed = most;
    if (allowed >= 16 && __builtin_cpu_supports("x86-64-v4")) return 16;
    return allowed >= 8 && __builtin_cpu_supports("x86-64-v3") ? 8 : 0;
}

void product_part(const float *x, long rows, long far, long deep, const float *weight, const float *bias, long outs,
                  int relu, float *out, long apart, long part, long parts) {
    int wide = product_lanes(0) == 16;
    Tile *tile = wide ? rows16 : rows8;
    long most = wide ? 14 : 6, tiles = (rows + most - 1) / most, panels = (outs + PANEL - 1) / PANEL;
    for (long panel = panels * part / parts; panel < panels * (part + 1) / parts; panel++) {
        const float *w = weight + panel * PANEL * deep, *add = bias ? bias + panel * PANEL : 0;
        long start = panel * PANEL, left = outs - start;
        for (long t = 0; t < tiles; t++) {
            long from = rows * t / tiles, count = rows * (t + 1) / tiles - from;
            if (left >= PANEL) {
                tile((int)count, x + from * far, far, w, deep, add, relu, out + from * apart + start, apart);
            } else { /* the last panel has more outputs than are wanted */
                float whole[14 * PANEL];
                tile((int)count, x + from * far, far, w, deep, add, relu, whole, PANEL);
                for (long r = 0; r < count; r++)
                    memcpy(out + (from + r) * apart + start, whole + r * PANEL, left * sizeof(float));
            }
        }
    }
}

#else

int product_lanes(int most) { return 0; }

void product_part(const float *x, long rows, long far, long deep, const float *weight, const float *bias, long outs,
                  int relu, float *out, long apart, long part, long parts) {}

#endif
