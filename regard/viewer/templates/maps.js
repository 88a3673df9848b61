// Maps stay compressed text until somebody looks at them.
const decoded = new Map();
function bytes(site) {
  if (!decoded.has(site)) decoded.set(site, inflate(site));
  return decoded.get(site);
}
async function inflate(site) {
  const text = atob($(`map-${site}`).textContent.trim());
  const packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const levels = new Uint8Array(await new Response(stream).arrayBuffer());
  const [heads, rows, columns] = look.maps[site].shape;
  if (levels.length !== heads * rows * columns) throw new Error(`map ${site} is ${levels.length} bytes long`);
  document.documentElement.dataset.decoded = decoded.size;
  return levels;
}
const stepOf = (site) => look.maps[site].max / 255;

// The weights of one head, or the mean or largest of all heads, cell by cell.
async function matrix(site, mode, head) {
  const levels = await bytes(site);
  const [heads, rows, columns] = look.maps[site].shape;
  const size = rows * columns;
  const step = stepOf(site);
  const values = new Float32Array(size);
  if (mode === "single") {
    for (let i = 0; i < size; i++) values[i] = levels[head * size + i] * step;
  } else {
    for (let h = 0; h < heads; h++) {
      for (let i = 0; i < size; i++) {
        const weight = levels[h * size + i] * step;
        values[i] = mode === "max" ? Math.max(values[i], weight) : values[i] + weight / heads;
      }
    }
  }
  let peak = 0;
  for (let i = 0; i < size; i++) if (values[i] > peak) peak = values[i];
  return { rows, columns, values, step, peak };
}

const shorten = (text, most) => {
  const letters = [...text];
  return letters.length > most ? letters.slice(0, most - 1).join("") + "…" : text;
};
const sentence = ([first, end], i) => `${i + 1} ${look.tokens.slice(first, end).filter((t) => !t.special).slice(0, 3)
  .map((t) => t.text.trim()).join(" ")}…`;
const token = (t) => t.text.trim() || "␣";
function labels(axis, count) {
  if (axis === "tokens") return look.tokens.map(token);
  if (axis === "sentences") return look.sentences.map(sentence);
  if (axis === "document") return ["document"];
  return Array.from({ length: count }, (_, i) => `hop ${i + 1}`);
}
