// Maps stay compressed until they are shown.
const decoded = new Map();
function bytes(layer) {
  if (!decoded.has(layer)) decoded.set(layer, inflate(layer));
  return decoded.get(layer);
}
async function inflate(layer) {
  const text = atob($(`map-${layer}`).textContent.trim());
  const packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const levels = new Uint8Array(await new Response(stream).arrayBuffer());
  const [heads, rows, columns] = look.maps[layer].shape;
  if (levels.length !== heads * rows * columns) throw new Error(`map ${layer} is ${levels.length} bytes long`);
  document.documentElement.dataset.decoded = decoded.size;
  return levels;
}
const stepOf = (layer) => look.maps[layer].max / 255;
const ownerOf = (layer) => (look.maps[layer].side ? look.other : look);

// Weights of one head, or the mean or maximum over the selected heads.
async function matrix(layer, mode, head, chosen) {
  const levels = await bytes(layer);
  const [heads, rows, columns] = look.maps[layer].shape;
  const size = rows * columns;
  const step = stepOf(layer);
  const values = new Float32Array(size);
  const list = mode === "single" ? [head] : chosen && chosen.length ? chosen : Array.from({ length: heads }, (_, h) => h);
  for (const h of list) {
    for (let i = 0; i < size; i++) {
      const weight = levels[h * size + i] * step;
      values[i] = mode === "max" ? Math.max(values[i], weight) : values[i] + weight / list.length;
    }
  }
  return { rows, columns, values, step };
}

// Entries of an axis: name, word, and whether it is a special token.
const token = (t) => t.text.trim() || "␣";
function axisOf(layer, axis, count) {
  const owner = ownerOf(layer);
  const places = (list, from = 0) => list.map((t, i) => ({ name: token(t), word: t.special ? null : t.word, special: t.special, index: from + i }));
  const named = (names) => names.map((name) => ({ name, word: null, special: false }));
  if (axis === "tokens") return places(owner.tokens);
  if (axis === "sentences") return named(owner.sentences.map((span, i) => sentence(owner, span, i)));
  if (axis === "document") return named(["document"]);
  const range = (owner.axes || {})[axis];
  if (Array.isArray(range)) return places(owner.tokens.slice(range[0], range[1]), range[0]);
  if (range) return named(range.names.map((n) => n.trim() || "␣"));
  return named(Array.from({ length: count }, (_, i) => `hop ${i + 1}`));
}
const sentence = (owner, [first, end], i) => `${i + 1} ${owner.tokens.slice(first, end).filter((t) => !t.special).slice(0, 3)
  .map((t) => t.text.trim()).join(" ")}…`;

// Group positions: tokens of a word, if whole words are shown, and spans joined by the user; special tokens may be hidden.
function groupsOf(places, words, special, spans) {
  const spanOf = ({ index }) => (spans || []).findIndex(([first, last]) => first <= index && index <= last);
  const groups = [];
  places.forEach((place, i) => {
    if (place.special && !special) return;
    const last = groups[groups.length - 1], span = spanOf(place);
    if (last && span >= 0 && last.span === span) {
      last.at.push(i);
      last.name += (place.word !== null && last.word === place.word ? "" : " ") + place.name;
      last.word = place.word;
    } else if (span < 0 && (last?.span ?? -1) < 0 && words && last && place.word !== null && last.word === place.word && last.at[last.at.length - 1] === i - 1) {
      last.at.push(i);
      last.name += place.name;
    } else groups.push({ name: place.name, word: place.word, at: [i], span });
  });
  return groups;
}

// Columns of a word are summed, its rows are averaged; rows are then normalized on request.
function shaped(layer, raw, { unit, special, norm, spans }) {
  const map = look.maps[layer], joined = ownerOf(layer) === look || sameTokens() ? spans : null;
  const rowGroups = groupsOf(axisOf(layer, map.rows, raw.rows), unit === "words", special, joined);
  const columnGroups = groupsOf(axisOf(layer, map.columns, raw.columns), unit === "words", special, joined);
  const rows = rowGroups.length, columns = columnGroups.length;
  const values = new Float32Array(rows * columns);
  const sums = new Float32Array(rows);
  rowGroups.forEach((row, r) => {
    columnGroups.forEach((column, c) => {
      let sum = 0;
      for (const q of row.at) for (const k of column.at) sum += raw.values[q * raw.columns + k];
      values[r * columns + c] = sum / row.at.length;
      sums[r] += sum / row.at.length;
    });
    if (norm && sums[r] > 0) for (let c = 0; c < columns; c++) values[r * columns + c] /= sums[r];
  });
  // Quantization error: half a step for each summed cell; for normalized rows also that of the row sum.
  const half = raw.step / 2, all = columnGroups.reduce((count, g) => count + g.at.length, 0);
  const error = (r, c) => (norm && sums[r] > 0
    ? (half * (columnGroups[c].at.length + values[r * columns + c] * all)) / sums[r] : half * columnGroups[c].at.length);
  return { rows, columns, values, step: raw.step, error, rowNames: rowGroups.map((g) => g.name),
    columnNames: columnGroups.map((g) => g.name) };
}
const peakOf = (values) => { let peak = 0; for (const v of values) peak = Math.max(peak, Math.abs(v)); return peak; };

const sameTokens = () => look.other && look.other.tokens.length === look.tokens.length &&
  look.tokens.every((t, i) => t.text === look.other.tokens[i].text);
// The same layer of the other run, if it has the same shape.
function twin(layer) {
  const map = look.maps[layer];
  const found = look.maps.findIndex((m) => m.layer === map.layer && Boolean(m.side) !== Boolean(map.side) && String(m.shape) === String(map.shape));
  return sameTokens() && found >= 0 ? found : null;
}

// The map to draw, or the difference of both runs.
async function currentMap(state) {
  const { layer, mode, head, heads, diff } = state;
  const mine = shaped(layer, await matrix(layer, mode, head, heads), state);
  const other = diff ? twin(layer) : null;
  if (other !== null) {
    const theirs = shaped(other, await matrix(other, mode, head, heads), state);
    const sign = look.maps[layer].side ? -1 : 1;
    for (let i = 0; i < mine.values.length; i++) mine.values[i] = sign * (mine.values[i] - theirs.values[i]);
    const error = mine.error;
    mine.error = (r, c) => error(r, c) + theirs.error(r, c);
    mine.signed = true;
  }
  mine.peak = peakOf(mine.values);
  return mine;
}

const shorten = (text, most) => {
  const letters = [...text];
  return letters.length > most ? letters.slice(0, most - 1).join("") + "…" : text;
};
