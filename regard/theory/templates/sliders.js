const at = (id) => document.getElementById(id);
const value = (id) => Number(at(id).value);
const softmax = (scores) => {
  const high = Math.max(...scores);
  const shares = scores.map((s) => Math.exp(s - high));
  const sum = shares.reduce((a, b) => a + b, 0);
  return shares.map((s) => s / sum);
};
const percent = (x) => (100 * x).toFixed(x > 0.001 && x < 0.999 ? 1 : 2) + " %";
const bars = (svg, shares, height, labels, second) => {
  const width = 640 / shares.length;
  const top = Math.max(...shares, ...(second || [0]), 1e-9);
  const one = (list, kind) => list.map((s, i) =>
    `<rect class="${kind}" x="${(i * width + 1).toFixed(1)}" width="${Math.max(1, width - 2).toFixed(1)}" y="${(height * (1 - s / top)).toFixed(1)}" height="${(height * s / top).toFixed(1)}"><title>${percent(s)}</title></rect>`).join("");
  svg.innerHTML = one(shares, "first") + (second ? one(second, "second") : "") + `<path d="M0 ${height}H640"/>` +
    labels.map(([x, word]) => `<text x="${x}" y="${height + 18}" text-anchor="${x > 600 ? "end" : x < 40 ? "start" : "middle"}">${word}</text>`).join("");
};

// Draws by chance, the same in every browser: mulberry32, then Box and Muller.
const chance = (seed) => () => {
  seed = (seed + 0x6d2b79f5) | 0;
  let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
};
const normals = (count, seed) => {
  const next = chance(seed), out = new Float64Array(count);
  for (let i = 0; i < count; i += 2) {
    const r = Math.sqrt(-2 * Math.log(1 - next())), a = 2 * Math.PI * next();
    out[i] = r * Math.cos(a);
    if (i + 1 < count) out[i + 1] = r * Math.sin(a);
  }
  return out;
};
const N = 10, DRAWS = 10000;
const along = normals(DRAWS, 1), noise = normals(2 * N * DRAWS, 2);

const copying = () => {
  const n = value("keys"), margin = value("margin");
  at("margin-out").value = margin.toFixed(1);
  at("keys-out").value = n;
  const weights = softmax([margin, ...Array(n - 1).fill(0)]);
  const h = -weights.reduce((a, w) => a + (w > 0 ? w * Math.log(w) : 0), 0);
  at("copying-said").textContent = `The first key gets ${percent(weights[0])}, which is 1 / (1 + ${n - 1} exp(-${margin.toFixed(1)})). ` +
    `The row's entropy is ${h.toFixed(2)} of at most ${Math.log(n).toFixed(2)} nats.`;
  bars(at("copying-bars"), weights, 140, [[320 / n, "k_1"], [640 - 320 / n, `k_${n}`]]);
};

const draws = () => {
  const m = value("strength"), spread = Math.sqrt(value("variance")), alpha = Math.sqrt(10 ** value("alpha")), heads = value("count");
  const found = new Float64Array(DRAWS), other = new Float64Array(DRAWS);
  for (let i = 0; i < DRAWS; i++) {
    const a = [], b = [];
    for (let k = 0; k < N; k++) {  // only the parts of each key along μ_a and μ_b meet a query
      a.push((k === 0 ? 1 + spread * along[i] : 0) + alpha * noise[2 * (i * N + k)]);
      b.push((k === 1 ? 1 : 0) + alpha * noise[2 * (i * N + k) + 1]);
    }
    const rows = heads === 1 ? [softmax(a.map((x, k) => m * (x + b[k])))] : [softmax(a.map((x) => m * x)), softmax(b.map((x) => m * x))];
    found[i] = rows.reduce((s, r) => s + r[0], 0) / rows.length;
    other[i] = rows.reduce((s, r) => s + r[1], 0) / rows.length;
  }
  return [found, other];
};
const variance = (list) => {
  let mean = 0, total = 0;
  for (const x of list) mean += x / list.length;
  for (const x of list) total += (x - mean) ** 2 / (list.length - 1);
  return [mean, total];
};
const heads = () => {
  at("strength-out").value = value("strength");
  at("variance-out").value = value("variance").toFixed(2);
  at("alpha-out").value = (10 ** value("alpha")).toExponential(1);
  at("count-out").value = value("count");
  const [a, b] = draws(), counts = Array(40).fill(0);
  for (const x of a) counts[Math.min(39, Math.floor(40 * x))] += 1 / DRAWS;
  const [meanA, varA] = variance(a), [meanB, varB] = variance(b);
  const off = a.reduce((s, x) => s + (x < 0.25), 0) / DRAWS;
  at("heads-said").textContent = `In the mean the output is ${meanA.toFixed(3)} v_a + ${meanB.toFixed(3)} v_b; its variance is ${(varA + varB).toFixed(3)}. ` +
    `In ${percent(off)} of the draws v_a is all but missing.`;
  bars(at("heads-bars"), counts, 160, [[8, "weight of v_a: 0"], [320, "½"], [632, "1"]]);
};

const hand = () => {
  const beta = value("beta"), same = value("identity") === 1, names = "abcd";
  at("beta-out").value = beta.toFixed(1);
  at("identity-out").value = same ? "Q = K = V = I" : "Q, K, V by hand";
  const x = [[0, 1, 0, 1], [1, 0, 0, 0], [0, 1, 1, 0]];  // in units of u
  const query = (v) => same ? v : [0, 0, v[3], v[0]];  // Q sends u_a to u_d and u_d to u_c
  const read = (v) => same ? v : [0, v[1], -v[2], 0];
  at("hand-rows").innerHTML = x.map((row, i) => {
    const weights = softmax(x.map((key) => beta * beta * key.reduce((s, k, j) => s + k * query(row)[j], 0)));
    const out = [0, 1, 2, 3].map((j) => weights.reduce((s, w, k) => s + w * read(x[k])[j], 0));
    return `<tr><td>c${i + 1}</td>${out.map((c) => `<td>${(Math.round(1000 * c) / 1000 || 0).toFixed(3)}</td>`).join("")}</tr>`;
  }).join("");
};
for (const id of ["margin", "keys"]) at(id).addEventListener("input", copying);
for (const id of ["strength", "variance", "alpha", "count"]) at(id).addEventListener("input", heads);
for (const id of ["beta", "identity"]) at(id).addEventListener("input", hand);
copying(); heads(); hand();
