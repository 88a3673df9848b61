/* Each tile is some rows of x against one panel of the weight. Its sums stay in registers until they are done: as many
 * rows as registers hold, 14 of two vectors of sixteen floats (AVX-512), or 6 of two of eight (AVX2). A row's numbers are
 * broadcast from where they lie, so that x is not copied, and the next panel is fetched while this one is multiplied.
 * Weights of sixteen bits are made floats as they are read: half the bytes, and the same products.
 *
 * Libraries for large products put both sides in order first, which costs more than it brings for the rows of a step.
 */
#include "product.h"

#include <string.h>

#if defined(__x86_64__) && defined(__linux__) && !defined(__clang__) && defined(__GNUC__) && __GNUC__ >= 12

#include <immintrin.h>

typedef float v8 __attribute__((vector_size(32), aligned(4), may_alias));
typedef float v16 __attribute__((vector_size(64), aligned(4), may_alias));

#define WIDE __attribute__((target("arch=x86-64-v4")))
#define NARROW __attribute__((target("arch=x86-64-v3")))
#define UNROLL _Pragma("GCC unroll 16")

#define FLOATS16(w) (*(const v16 *)(w))
#define FLOATS8(w) (*(const v8 *)(w))
#define HALVES16(w) ((v16)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(w))))
#define HALVES8(w) ((v8)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(w))))

/* `rows` is known where this is inlined. Three rows share a pointer: an address may have one or two steps added. */
#define TILE(target, name, vec, lanes, most, type, load)                                                               \
    target static inline __attribute__((always_inline)) void name(                                                     \
        const int rows, const float *x, long far, const type *w, long deep, const float *bias, int relu, float *out,   \
        long apart) {                                                                                                  \
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
            vec left = load(w), right = load(w + lanes);                                                               \
            __builtin_prefetch(w + ahead, 0, 2);                                                                       \
            if (2 * lanes * sizeof(type) == 128) __builtin_prefetch(w + ahead + lanes, 0, 2);                          \
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

TILE(WIDE, tile16, v16, 16, 14, float, FLOATS16)
TILE(NARROW, tile8, v8, 8, 6, float, FLOATS8)
TILE(WIDE, half16, v16, 16, 14, uint16_t, HALVES16)
TILE(NARROW, half8, v8, 8, 6, uint16_t, HALVES8)

typedef void Tile(int rows, const float *x, long far, const void *w, long deep, const float *bias, int relu, float *out,
                  long apart);

#define CASE(name, n) case n: name(n, x, far, w, deep, bias, relu, out, apart); break;
#define CASES6(name) CASE(name, 1) CASE(name, 2) CASE(name, 3) CASE(name, 4) CASE(name, 5) CASE(name, 6)
#define CASES14(name)                                                                                                  \
    CASES6(name) CASE(name, 7) CASE(name, 8) CASE(name, 9) CASE(name, 10) CASE(name, 11) CASE(name, 12) CASE(name, 13) \
    CASE(name, 14)

/* A whole panel at once, or the two halves of it one after the other. */
#define PANEL_AT_ONCE(name, tile)                                                                                      \
    WIDE static void name(int rows, const float *x, long far, const void *w, long deep, const float *bias, int relu,   \
                          float *out, long apart) {                                                                    \
        switch (rows) { CASES14(tile) }                                                                                \
    }

#define PANEL_IN_HALVES(name, tile, type)                                                                              \
    NARROW static void name(int rows, const float *x, long far, const void *given, long deep, const float *bias,       \
                            int relu, float *out, long apart) {                                                        \
        const type *w = given;                                                                                         \
        for (int half = 0; half < 2; half++, w += 16, out += 16, bias = bias ? bias + 16 : 0) {                        \
            switch (rows) { CASES6(tile) }                                                                             \
        }                                                                                                              \
    }

PANEL_AT_ONCE(wide_floats, tile16)
PANEL_AT_ONCE(wide_halves, half16)
PANEL_IN_HALVES(narrow_floats, tile8, float)
PANEL_IN_HALVES(narrow_halves, half8, uint16_t)

static int allowed = 16;

int product_lanes(int most) {
    if (most) allowed = most;
    if (allowed >= 16 && __builtin_cpu_supports("x86-64-v4")) return 16;
    return allowed >= 8 && __builtin_cpu_supports("x86-64-v3") ? 8 : 0;
}

void product_part(const float *x, long rows, long far, long deep, const void *weight, int half, const float *bias,
                  long outs, int relu, float *out, long apart, long part, long parts) {
    int wide = product_lanes(0) == 16;
    Tile *tile = wide ? (half ? wide_halves : wide_floats) : half ? narrow_halves : narrow_floats;
    long most = wide ? 14 : 6, tiles = (rows + most - 1) / most, panels = (outs + PANEL - 1) / PANEL;
    for (long panel = panels * part / parts; panel < panels * (part + 1) / parts; panel++) {
        const char *w = (const char *)weight + panel * PANEL * deep * (half ? sizeof(uint16_t) : sizeof(float));
        const float *add = bias ? bias + panel * PANEL : 0;
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

void product_part(const float *x, long rows, long far, long deep, const void *weight, int half, const float *bias,
                  long outs, int relu, float *out, long apart, long part, long parts) {}

#endif
